//! The dialect against fixtures of both directions, the traps and the error table of the contract.

mod answers;
mod requests;
mod streams;
