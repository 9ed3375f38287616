//! Parameters of a statement: a slice, an array, a pair, or an iterator.

use rusqlite::ToSql;

/// Values in placeholder order.
pub trait Parameters {
    fn with<R>(&self, then: impl FnOnce(&[&dyn ToSql]) -> R) -> R;
}

impl Parameters for &[&dyn ToSql] {
    fn with<R>(&self, then: impl FnOnce(&[&dyn ToSql]) -> R) -> R {
        then(self)
    }
}

// An empty array has no element type to infer. Hence this impl, and one for each length below.
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

/// The result of [`params_from_iter`].
#[derive(Debug)]
pub struct ParametersFromIter<T>(Vec<T>);

/// Uses an iterator's values as parameters.
pub fn params_from_iter<T: ToSql>(values: impl IntoIterator<Item = T>) -> ParametersFromIter<T> {
    ParametersFromIter(values.into_iter().collect())
}

impl<T: ToSql> Parameters for ParametersFromIter<T> {
    fn with<R>(&self, then: impl FnOnce(&[&dyn ToSql]) -> R) -> R {
        let values: Vec<&dyn ToSql> = self.0.iter().map(|value| value as &dyn ToSql).collect();
        then(&values)
    }
}
