//! The 22 queries of TPC-H with the validation values of its specification, for tests, demo and benchmarks.

/// Names of the eight tables, ascending.
pub const TABLES: [&str; 8] =
    ["customer", "lineitem", "nation", "orders", "part", "partsupp", "region", "supplier"];

/// The text of query `number`, 1 to 22; `None` for any other number.
///
/// ```
/// assert!(pointsman_engine::tpch::query(6).is_some_and(|sql| sql.contains("lineitem")));
/// assert_eq!(pointsman_engine::tpch::query(23), None);
/// ```
pub fn query(number: usize) -> Option<&'static str> {
    QUERIES.get(number.checked_sub(1)?).copied()
}

const QUERIES: [&str; 22] = [
    include_str!("../tpch/q1.sql"),
    include_str!("../tpch/q2.sql"),
    include_str!("../tpch/q3.sql"),
    include_str!("../tpch/q4.sql"),
    include_str!("../tpch/q5.sql"),
    include_str!("../tpch/q6.sql"),
    include_str!("../tpch/q7.sql"),
    include_str!("../tpch/q8.sql"),
    include_str!("../tpch/q9.sql"),
    include_str!("../tpch/q10.sql"),
    include_str!("../tpch/q11.sql"),
    include_str!("../tpch/q12.sql"),
    include_str!("../tpch/q13.sql"),
    include_str!("../tpch/q14.sql"),
    include_str!("../tpch/q15.sql"),
    include_str!("../tpch/q16.sql"),
    include_str!("../tpch/q17.sql"),
    include_str!("../tpch/q18.sql"),
    include_str!("../tpch/q19.sql"),
    include_str!("../tpch/q20.sql"),
    include_str!("../tpch/q21.sql"),
    include_str!("../tpch/q22.sql"),
];
