//! Questions to all workers, and what they answered so far.
//!
//! A worker with several tenants answers for each of them; they are put together here.
//!
//! Invariant: a round ends with the last worker's answer, once.

use engine::fleet::{Answer, Questioner, ReplyTo};
use engine::tenancy::TenantId;

/// Rounds that are under way, each with what is to be done at its end.
pub(super) struct Rounds<T> {
    next_ticket: u64,
    open: Vec<Round<T>>,
}

struct Round<T> {
    ticket: u64,
    /// Workers that have not answered.
    wanted: usize,
    answers: Vec<Answer>,
    then: T,
}

impl<T> Default for Rounds<T> {
    fn default() -> Self {
        Self { next_ticket: 0, open: Vec::new() }
    }
}

impl<T> Rounds<T> {
    /// A new round of so many answers; where they go.
    pub(super) fn begin(&mut self, wanted: usize, then: T) -> ReplyTo {
        self.next_ticket += 1;
        let ticket = self.next_ticket;
        self.open.push(Round { ticket, wanted, answers: Vec::new(), then });
        ReplyTo { who: Questioner::Control, tenant: TenantId::DEFAULT, login: None, ticket }
    }

    /// An answer came; at the last one of its round, what was to be done and all of them.
    pub(super) fn answered(&mut self, ticket: u64, answer: Answer) -> Option<(T, Vec<Answer>)> {
        let at = self.open.iter().position(|round| round.ticket == ticket)?;
        let round = &mut self.open[at];
        match answer {
            Answer::Each(answers) => round.answers.extend(answers),
            answer => round.answers.push(answer),
        }
        round.wanted -= 1;
        if round.wanted > 0 {
            return None;
        }
        let round = self.open.swap_remove(at);
        Some((round.then, round.answers))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_ends_with_its_last_answer() {
        let mut rounds = Rounds::default();
        let (one, other) = (rounds.begin(2, "one").ticket, rounds.begin(1, "other").ticket);
        assert_eq!(rounds.answered(one, Answer::Done), None);
        assert_eq!(
            rounds.answered(other, Answer::Killed(3)),
            Some(("other", vec![Answer::Killed(3)]))
        );
        let both = vec![Answer::Done, Answer::Done];
        assert_eq!(rounds.answered(one, Answer::Done), Some(("one", both)));
        assert_eq!(rounds.answered(one, Answer::Done), None, "it is over");
    }
}
