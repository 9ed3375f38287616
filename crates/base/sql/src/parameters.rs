//! The values of a statement's parameters: a slice, an array, a pair, or an iterator of them.

use rusqlite::ToSql;

/// Values in the order of the placeholders.
pub trait Parameters {
    fn with<R>(&self, then: impl FnOnce(&[&dyn ToSql]) -> R) -> R;
}

impl Parameters for &[&dyn ToSql] {
    fn with<R>(&self, then: impl FnOnce(&[&dyn ToSql]) -> R) -> R {
        then(self)
    }
}

// An array without values has no type to infer, hence this one, and the lengths below.
impl Parameters for [&(dyn ToSql + Send + Sync); 0] {
    fn with<R>(&self, then: impl FnOnce(&[&dyn ToSql]) -> R) -> R {
        then(&[])
    }
}

macro_rules! arrays {
    ($($length:literal)+) => {$(
        impl<T: ToSql> Parameters for [T; $length] {
            fn with<R>(&self, then: impl FnOnce(&[&dyn ToSql]) -> R) -> R {
                let values: [&dyn ToSql; $length] = self.each_ref().map(|value| value as &dyn ToSql);
                then(&values)
            }
        }

        impl<T: ToSql + ?Sized> Parameters for &[&T; $length] {
            fn with<R>(&self, then: impl FnOnce(&[&dyn ToSql]) -> R) -> R {
                let values: [&dyn ToSql; $length] = self.each_ref().map(|value| value as &dyn ToSql);
                then(&values)
            }
        }
    )+};
}

arrays!(1 2 3 4 5 6 7 8);

impl<A: ToSql, B: ToSql> Parameters for (A, B) {
    fn with<R>(&self, then: impl FnOnce(&[&dyn ToSql]) -> R) -> R {
        then(&[&self.0, &self.1])
    }
}

impl<A: ToSql, B: ToSql, C: ToSql> Parameters for (A, B, C) {
    fn with<R>(&self, then: impl FnOnce(&[&dyn ToSql]) -> R) -> R {
        then(&[&self.0, &self.1, &self.2])
    }
}

/// What [`params_from_iter`] returns.
#[derive(Debug)]
pub struct ParametersFromIter<T>(Vec<T>);

/// The values of an iterator.
pub fn params_from_iter<T: ToSql>(values: impl IntoIterator<Item = T>) -> ParametersFromIter<T> {
    ParametersFromIter(values.into_iter().collect())
}

impl<T: ToSql> Parameters for ParametersFromIter<T> {
    fn with<R>(&self, then: impl FnOnce(&[&dyn ToSql]) -> R) -> R {
        let values: Vec<&dyn ToSql> = self.0.iter().map(|value| value as &dyn ToSql).collect();
        then(&values)
    }
}
