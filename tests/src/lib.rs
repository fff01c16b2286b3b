//! End-to-end tests of Pointsman: real processes, real PostgreSQL, real failures. They are in `tests/e2e/`, one file per
//! promise; `cargo xtask test -E 'package(pointsman-tests)'` runs them alone.
