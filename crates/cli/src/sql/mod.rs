//! SQL as the command line sees it: texts of several statements, answers of the broker, and their printed forms.
//! What a statement means is for the broker alone.

mod answer;
mod print;
mod split;

pub use answer::{Answer, Coverage, Exception, ResultTable, Schema};
pub use print::Format;
pub use split::{split, statements};
