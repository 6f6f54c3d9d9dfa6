//! Two questions to the ledger whose answers are of one moment, although rows are written meanwhile.

/// Two questions to the ledger about the same rows: those that a caller knows already, and sums of all rows.
pub(super) trait TwoQuestions {
    /// The rows that the caller knows, as far as the ledger has them.
    type Counted: PartialEq + Send;
    /// The sums of all rows.
    type Sums: Send;
    /// The reason for which there is no answer.
    type Error: Send;

    /// Asks for the rows that the caller knows.
    fn counted(&self) -> impl Future<Output = Result<Self::Counted, Self::Error>> + Send;

    /// Asks for the sums.
    fn sums(&self) -> impl Future<Output = Result<Self::Sums, Self::Error>> + Send;
}

/// How often the sums are read for want of a moment in which nothing is written. A request waits for the answer.
const MAX_READS: usize = 4;

/// Reads the known rows, then the sums, until no known row is written between the two questions. If rows come all the time, those of that
/// moment are only in the sums: a budget may end too early, and never too late.
pub(super) async fn of_one_moment<Q: TwoQuestions>(questions: &Q) -> Result<(Q::Counted, Q::Sums), Q::Error> {
    let (mut before, mut sums) = (questions.counted().await?, questions.sums().await?);
    for _ in 1..MAX_READS {
        let after = questions.counted().await?;
        if after == before {
            break;
        }
        (before, sums) = (after, questions.sums().await?);
    }
    Ok((before, sums))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    /// A ledger with one row at first. Before each of the first `rows` questions a row is written.
    struct Written {
        rows: u32,
        questions: AtomicU32,
    }

    impl Written {
        fn new(rows: u32) -> Self {
            Self { rows, questions: AtomicU32::new(0) }
        }

        fn ask(&self) -> Result<u32, ()> {
            let asked = self.questions.fetch_add(1, Ordering::Relaxed);
            Ok(1 + asked.min(self.rows))
        }
    }

    impl TwoQuestions for Written {
        type Counted = u32;
        type Sums = u32;
        type Error = ();

        async fn counted(&self) -> Result<u32, ()> {
            self.ask()
        }

        async fn sums(&self) -> Result<u32, ()> {
            self.ask()
        }
    }

    #[tokio::test]
    async fn a_row_between_the_questions_is_in_both_answers() {
        assert_eq!(of_one_moment(&Written::new(0)).await, Ok((1, 1)));
        assert_eq!(of_one_moment(&Written::new(1)).await, Ok((2, 2)));
        assert_eq!(of_one_moment(&Written::new(4)).await, Ok((5, 5)));
    }

    #[tokio::test]
    async fn rows_that_come_all_the_time_are_in_the_sums_alone() {
        let (counted, sums) = of_one_moment(&Written::new(u32::MAX - 1)).await.unwrap();
        assert_eq!(sums, counted + 1);
    }
}
