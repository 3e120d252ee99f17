//! Statements that are sent to SQLite together, each with its arguments.

use super::value::Value;

/// Statements waiting to be sent, in order.
#[derive(Debug, Default)]
pub(super) struct Script {
    text: String,
    args: Vec<Value>,
}

impl Script {
    /// Begins a script with statements without arguments.
    pub(super) fn new(statements: &str) -> Self {
        Self { text: statements.to_owned(), args: Vec::new() }
    }

    /// Adds statements. Their placeholders (`$1` and so on) refer to `args`.
    pub(super) fn push(&mut self, sql: &str, args: &[Value]) {
        if !self.text.is_empty() {
            self.text.push_str("; ");
        }
        push_numbered_from(&mut self.text, sql, self.args.len());
        self.args.extend_from_slice(args);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    pub(super) fn into_parts(self) -> (String, Vec<Value>) {
        (self.text, self.args)
    }
}

/// Appends `sql` with its placeholders shifted by `offset`.
fn push_numbered_from(text: &mut String, sql: &str, offset: usize) {
    if offset == 0 {
        return text.push_str(sql);
    }
    let mut parts = sql.split('$');
    text.push_str(parts.next().unwrap_or_default());
    for part in parts {
        let digits = part.bytes().take_while(u8::is_ascii_digit).count();
        let (number, rest) = part.split_at(digits);
        text.push('$');
        match number.parse::<usize>() {
            Ok(number) => text.push_str(&(number + offset).to_string()),
            Err(_) => text.push_str(number),
        }
        text.push_str(rest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args;

    #[test]
    fn placeholders_are_those_of_the_arguments_of_their_statement() {
        let mut script = Script::new("BEGIN");
        script.push("UPDATE a SET b = $2 WHERE c = $1", &args![1_i64, "two"]);
        script.push("DELETE FROM a", &[]);
        script.push("INSERT INTO d VALUES ($1, $11, '$.path')", &args![3_i64]);
        script.push("COMMIT", &[]);
        let text =
            "BEGIN; UPDATE a SET b = $2 WHERE c = $1; DELETE FROM a; INSERT INTO d VALUES ($3, $13, '$.path'); COMMIT";
        assert_eq!(script.into_parts(), (text.to_owned(), args![1_i64, "two", 3_i64].to_vec()));
    }
}
