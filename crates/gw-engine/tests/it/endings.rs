//! Every ending of a request, and the books after it.

mod budgets;
mod disconnects;
mod events;
mod killed;
mod settlement;
mod shared_calls;
mod shutdown;
