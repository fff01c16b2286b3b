//! Limits on the SQL text, checked before anything recurses over it.
//!
//! Parsers, planners and evaluators recurse over expressions; a text decides how deep. The scan here is a flat loop
//! over tokens, so no text can overflow a stack before it is refused.

use datafusion::sql::sqlparser::{
    dialect::GenericDialect,
    keywords::Keyword,
    tokenizer::{Token, Tokenizer, Word},
};
use pointsman_ids::{Error, ErrorCode, Result};

/// Bytes of a text.
pub(crate) const MAX_BYTES: usize = 256 << 10;
/// Tokens of a text, white space not counted.
pub(crate) const MAX_TOKENS: usize = 50_000;
/// Brackets, `CASE`s and subqueries inside one another.
pub(crate) const MAX_NESTING: usize = 100;
/// Operators that stand above one another in one expression.
pub(crate) const MAX_CHAIN: usize = 500;
/// Values of an `IN` list.
pub(crate) const MAX_IN_LIST: usize = 10_000;
/// Arms of `UNION`, `INTERSECT` and `EXCEPT`, all together.
pub(crate) const MAX_UNION_ARMS: usize = 500;
/// Joins, all together.
pub(crate) const MAX_JOINS: usize = 64;
/// Columns of one `SELECT`.
pub(crate) const MAX_PROJECTIONS: usize = 4_096;

/// `sql_invalid`.
pub(crate) fn refuse(why: impl Into<String>) -> Error {
    Error::new(ErrorCode::SqlInvalid, why)
}

/// `sql_invalid` when `have` is over `limit`.
pub(crate) fn at_most(what: &str, have: usize, limit: usize) -> Result<()> {
    if have <= limit {
        Ok(())
    } else {
        Err(refuse(format!("the statement has {have} {what}, {limit} are allowed")))
    }
}

/// How far a parser will recurse over a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Depth {
    /// Any stack is large enough.
    Shallow,
    /// Within the limits, but not for a stack of usual size.
    Deep,
}

/// Nesting up to which a text is shallow.
const SHALLOW_NESTING: usize = 12;
/// Operators above one another up to which a text is shallow.
const SHALLOW_CHAIN: usize = 48;

/// Refuses a text that is too long, too deep or too wide to be parsed.
pub(crate) fn check_text(sql: &str) -> Result<Depth> {
    if sql.len() > MAX_BYTES {
        return Err(refuse(format!("the statement has {} bytes, {MAX_BYTES} are allowed", sql.len())));
    }
    let tokens =
        Tokenizer::new(&GenericDialect {}, sql).tokenize().map_err(|error| refuse(error.to_string()))?;
    let mut scan = Scan::default();
    for token in tokens.iter().filter(|token| !matches!(token, Token::Whitespace(_))) {
        scan.take(token)?;
    }
    at_most("arms of UNION, INTERSECT and EXCEPT", scan.arms + 1, MAX_UNION_ARMS)?;
    at_most("joins", scan.joins, MAX_JOINS)?;
    let shallow =
        scan.deepest <= SHALLOW_NESTING && scan.highest <= SHALLOW_CHAIN && scan.arms <= SHALLOW_CHAIN;
    Ok(if shallow { Depth::Shallow } else { Depth::Deep })
}

/// How strongly an operator binds; a stronger one stands below a weaker one.
#[derive(Clone, Copy)]
enum Binding {
    Or,
    And,
    Comparison,
    Sum,
    Product,
    Unary,
}

const BINDINGS: usize = 6;

/// Depth of one expression while it is read.
#[derive(Clone, Copy, Default)]
struct Expression {
    /// The highest operator so far, per binding.
    depth: [usize; BINDINGS],
    /// Operators that wait for their only operand.
    prefixes: usize,
    /// Whether the last token ended an operand, so that an operator comes between two.
    after_operand: bool,
    /// The highest operator of this expression and of those beside it inside the same brackets.
    highest: usize,
}

impl Expression {
    /// An operator between operands stands above everything that binds as strongly and came before it. One before an
    /// operand stands above that operand.
    fn operator(&mut self, binding: Binding) {
        if std::mem::take(&mut self.after_operand) {
            let at = binding as usize;
            self.depth[at] = self.depth[at..].iter().copied().max().unwrap_or_default() + 1;
            self.depth[at + 1..].fill(0);
        } else {
            self.prefixes += 1;
        }
        self.rise();
    }

    fn operand(&mut self, depth: usize) {
        let last = &mut self.depth[BINDINGS - 1];
        *last = (depth + std::mem::take(&mut self.prefixes)).max(*last);
        self.after_operand = true;
        self.rise();
    }

    fn rise(&mut self) {
        self.highest =
            self.depth.iter().copied().max().unwrap_or_default().max(self.prefixes).max(self.highest);
    }
}

/// A flat reading of the tokens.
#[derive(Default)]
struct Scan {
    tokens: usize,
    words_in_a_row: usize,
    arms: usize,
    joins: usize,
    /// The deepest nesting so far.
    deepest: usize,
    /// The highest expression so far.
    highest: usize,
    open: Vec<Expression>,
    current: Expression,
}

impl Scan {
    fn take(&mut self, token: &Token) -> Result<()> {
        self.tokens += 1;
        if self.tokens > MAX_TOKENS {
            return Err(refuse(format!("the statement has more than {MAX_TOKENS} words and signs")));
        }
        self.words_in_a_row = match token {
            Token::Word(word) if !matches!(word.keyword, Keyword::SELECT | Keyword::FROM) => {
                self.words_in_a_row + 1
            }
            _ => 0,
        };
        if self.words_in_a_row > MAX_NESTING {
            return Err(refuse(format!("the statement has more than {MAX_NESTING} words in a row")));
        }
        match token {
            Token::LParen | Token::LBrace => self.enter()?,
            Token::LBracket => {
                if self.current.after_operand {
                    self.current.operator(Binding::Unary);
                }
                self.enter()?;
            }
            Token::RParen | Token::RBracket | Token::RBrace => self.leave(),
            Token::Comma | Token::SemiColon => self.restart(),
            Token::Word(word) => self.word(word)?,
            Token::Number(..)
            | Token::SingleQuotedString(_)
            | Token::DoubleQuotedString(_)
            | Token::Placeholder(_) => {
                self.current.operand(0);
            }
            Token::Plus
            | Token::Minus
            | Token::StringConcat
            | Token::Pipe
            | Token::Ampersand
            | Token::Caret => {
                self.current.operator(Binding::Sum);
            }
            Token::Mul | Token::Div | Token::Mod | Token::DuckIntDiv => {
                self.current.operator(Binding::Product)
            }
            Token::DoubleColon | Token::ExclamationMark | Token::Tilde | Token::Period | Token::Colon => {
                self.current.operator(Binding::Unary);
            }
            // Whatever other sign there is can be an operator.
            _ => self.current.operator(Binding::Comparison),
        }
        self.highest = self.highest.max(self.current.highest);
        if self.highest > MAX_CHAIN {
            return Err(refuse(format!(
                "an expression has more than {MAX_CHAIN} operators above one another"
            )));
        }
        Ok(())
    }

    fn word(&mut self, word: &Word) -> Result<()> {
        match word.keyword {
            Keyword::UNION | Keyword::INTERSECT | Keyword::EXCEPT | Keyword::MINUS => {
                self.arms += 1;
                self.restart();
            }
            Keyword::JOIN => {
                self.joins += 1;
                self.restart();
            }
            Keyword::CASE => self.enter()?,
            Keyword::END => self.leave(),
            Keyword::OR | Keyword::XOR => self.current.operator(Binding::Or),
            Keyword::AND => self.current.operator(Binding::And),
            Keyword::NOT
            | Keyword::IS
            | Keyword::IN
            | Keyword::BETWEEN
            | Keyword::LIKE
            | Keyword::ILIKE
            | Keyword::SIMILAR
            | Keyword::REGEXP
            | Keyword::RLIKE
            | Keyword::DIV => self.current.operator(Binding::Comparison),
            Keyword::COLLATE | Keyword::AT => self.current.operator(Binding::Unary),
            Keyword::SELECT
            | Keyword::FROM
            | Keyword::WHERE
            | Keyword::GROUP
            | Keyword::HAVING
            | Keyword::ORDER
            | Keyword::LIMIT
            | Keyword::WHEN
            | Keyword::THEN
            | Keyword::ELSE
            | Keyword::ON => self.restart(),
            _ => self.current.operand(0),
        }
        Ok(())
    }

    fn enter(&mut self) -> Result<()> {
        if self.open.len() >= MAX_NESTING {
            return Err(refuse(format!("the statement is nested more than {MAX_NESTING} levels deep")));
        }
        self.open.push(std::mem::take(&mut self.current));
        self.deepest = self.deepest.max(self.open.len());
        Ok(())
    }

    fn leave(&mut self) {
        let inside = self.current.highest;
        self.current = self.open.pop().unwrap_or_default();
        self.current.operand(inside + 1);
    }

    /// A new expression begins: what stands before it is not below what comes, but beside it.
    fn restart(&mut self) {
        self.current = Expression { highest: self.current.highest, ..Expression::default() };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(sql: &str) -> String {
        check_text(sql).expect_err("must be refused").message().to_owned()
    }

    #[test]
    fn long_chains_of_operators_are_refused_wherever_they_stand() {
        let chain = |n: usize, sign: &str| format!("SELECT 1{}", format!("{sign}1").repeat(n));
        check_text(&chain(MAX_CHAIN, "+")).expect("the limit itself is allowed");
        for sign in ["+", " OR ", " AND ", "*", "||", "::int::int", " = "] {
            assert!(refused(&chain(2_000, sign)).contains("operators"), "{sign}");
        }
        assert!(refused(&format!("SELECT {}1", "- ".repeat(2_000))).contains("operators"));
    }

    #[test]
    fn chains_inside_brackets_add_up() {
        let mut sql = "1".to_owned();
        for _ in 0..90 {
            sql = format!("({sql}{})", "+1".repeat(20));
        }
        assert!(refused(&format!("SELECT {sql}")).contains("operators"));
    }

    #[test]
    fn many_short_terms_are_no_chain() {
        let terms = vec!["a = 1 AND b BETWEEN 2 AND 3 + 4"; 240].join(" OR ");
        check_text(&format!("SELECT * FROM t WHERE {terms}")).expect("wide, not deep");
        let columns = vec!["a + 1"; 2_000].join(", ");
        check_text(&format!("SELECT {columns} FROM t")).expect("wide, not deep");
    }

    #[test]
    fn deep_nesting_is_refused() {
        let nested = |n: usize| format!("SELECT {}1{}", "(".repeat(n), ")".repeat(n));
        check_text(&nested(MAX_NESTING)).expect("the limit itself is allowed");
        assert!(refused(&nested(MAX_NESTING + 1)).contains("nested"));
        assert!(refused(&format!("SELECT {}", "CASE WHEN 1=1 THEN ".repeat(200))).contains("nested"));
        assert!(refused(&format!("SELECT {}", "[".repeat(200))).contains("nested"));
    }

    #[test]
    fn usual_texts_are_shallow() {
        for number in 1..=22 {
            let sql = crate::tpch::query(number).expect("a query");
            assert_eq!(check_text(sql), Ok(Depth::Shallow), "query {number}");
        }
        assert_eq!(check_text(&format!("SELECT {}1{}", "(".repeat(20), ")".repeat(20))), Ok(Depth::Deep));
        assert_eq!(check_text(&format!("SELECT 1{}", "+1".repeat(60))), Ok(Depth::Deep));
    }

    #[test]
    fn size_is_limited() {
        assert!(refused(&format!("SELECT '{}'", "x".repeat(MAX_BYTES))).contains("bytes"));
        assert!(refused(&format!("SELECT {}", "1,".repeat(MAX_TOKENS / 2))).contains("words"));
        assert!(refused(&"SELECT 1 UNION ".repeat(600)).contains("UNION"));
        assert!(refused(&format!("SELECT 1 FROM a {}", "JOIN a USING (x) ".repeat(70))).contains("joins"));
        for word in ["EXPLAIN ", "NOT ", "INTERVAL ", "PREPARE x AS "] {
            assert!(refused(&format!("{}SELECT 1", word.repeat(10_000))).contains("in a row"), "{word}");
        }
    }
}
