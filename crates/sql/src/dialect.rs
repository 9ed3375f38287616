//! Translates SQLite's SQL to PostgreSQL's. Statements use the common subset, except for:
//!
//! | SQLite | PostgreSQL | |
//! | --- | --- | --- |
//! | `?1`, `?` | `$1`, `$2` … | placeholders |
//! | `CROSS JOIN a ON …` | `JOIN a ON …` | fixes the join order on SQLite; PostgreSQL's planner has statistics |
//! | `NOT INDEXED` | | forces a table scan on SQLite |

/// Translates a statement for PostgreSQL. String literals, quoted identifiers and comments stay as they are.
pub fn postgres(sql: &str) -> String {
    let mut out = String::with_capacity(sql.len() + 8);
    let mut rest = sql;
    let mut placeholders = 0;
    while let Some(at) = rest.find(['\'', '"', '-', '?', 'C', 'N']) {
        out.push_str(&rest[..at]);
        let begins_word = !out.ends_with(|c: char| c.is_alphanumeric() || c == '_');
        rest = &rest[at..];
        let taken = match rest.as_bytes()[0] {
            quote @ (b'\'' | b'"') => quoted(rest, char::from(quote)),
            b'-' if rest.starts_with("--") => rest.find('\n').unwrap_or(rest.len()),
            b'?' => {
                let digits = rest[1..].bytes().take_while(u8::is_ascii_digit).count();
                out.push('$');
                if digits == 0 {
                    placeholders += 1;
                    out.push_str(&placeholders.to_string());
                } else {
                    out.push_str(&rest[1..=digits]);
                }
                rest = &rest[1 + digits..];
                continue;
            }
            b'C' if begins_word && rest.starts_with("CROSS JOIN ") => {
                rest = &rest["CROSS ".len()..];
                continue;
            }
            b'N' if begins_word && rest.starts_with("NOT INDEXED") => {
                rest = &rest["NOT INDEXED".len()..];
                continue;
            }
            _ => 1,
        };
        out.push_str(&rest[..taken]);
        rest = &rest[taken..];
    }
    out.push_str(rest);
    out
}

/// Length of the quoted token at the beginning, in bytes. A doubled quote counts as two adjacent tokens, with the same
/// result.
fn quoted(text: &str, quote: char) -> usize {
    text[1..].find(quote).map_or(text.len(), |end| end + 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements() {
        let check = |sql: &str, expected: &str| assert_eq!(postgres(sql), expected);
        check("SELECT ?1, ?12 + ?2", "SELECT $1, $12 + $2");
        check("a = ? AND b = ? LIMIT ?", "a = $1 AND b = $2 LIMIT $3");
        check("'what?1' = ?1", "'what?1' = $1");
        check("'it''s ?' = ?", "'it''s ?' = $1");
        check("\"?\" = ?1 -- why?\n AND ?2", "\"?\" = $1 -- why?\n AND $2");
        check("a - ?1 -- ?", "a - $1 -- ?");
        check("FROM r CROSS JOIN a ON a.r = r.id", "FROM r JOIN a ON a.r = r.id");
        check("'CROSS JOIN a' A_CROSS JOIN", "'CROSS JOIN a' A_CROSS JOIN");
        check("FROM report NOT INDEXED WHERE", "FROM report  WHERE");
        check("Nothing 'open ?", "Nothing 'open ?");
        check("ä ? ü", "ä $1 ü");
        check("", "");
    }
}
