//! Properties over random states and requests.
