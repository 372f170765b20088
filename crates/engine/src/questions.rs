//! Questions to all workers that wait for their turn, and how fast they are given on.
//!
//! ```text
//!   CLIENT LIST, INFO, … ──▶ Questions (in turn by group) ── few under way? paid for the last? ──▶ Action::Ask ──▶ all workers
//!                                   ▲                                                                                    │
//!                                   └── handle_timeout, when the time that belongs to others is over ◀── pay ◀── answers ┘
//! ```
//! Each question costs time of every worker: a walk over its clients, and the bytes of the reply. Thousands of clients may ask at once, and the reply to one
//! CLIENT LIST may have many megabytes. So each question is paid for after it is answered: requests of other clients have several times as long as it took
//! before the next question is given on. Small questions may be ahead by a few milliseconds.
//!
//! Not here: the questions and their answers (`fleet`, `local`).
//!
//! Invariant: at most `QUESTIONS_MAX` questions of a worker are under way, and at most one CLIENT LIST. No question waits for a client that is gone,
//! unless it changes something.

use crate::engine::{Action, Engine};
use crate::fleet::{Answer, Asked, ConfigWish, Purpose, Question};
use crate::ids::ClientId;
use crate::limits::{
    ANSWER_BYTES_PER_US, ANSWER_CLIENTS_PER_US, LIST_PART, QUESTION_US, QUESTIONS_AHEAD_US,
    QUESTIONS_MAX, QUESTIONS_REST,
};
use crate::local::Call;
use crate::shares::Group;
use crate::time::Time;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;

/// Groups of which something is known though nothing of them waits.
const GROUPS_KEPT: usize = 64;

/// When it is the turn of a question: the round, and in it the order of arrival.
pub(crate) type Turn = (u64, u64);

/// Bytes of a question beside its words, in the maps and while the question waits.
const ASKED_BYTES: usize = size_of::<Asked>() + size_of::<(Turn, (u64, Question))>() + 96;

/// Bytes of each word of a question beside the text.
const WORD_BYTES: usize = size_of::<String>() + 32;

/// Questions of clients without an answer, by ticket.
#[derive(Debug, Default)]
pub(crate) struct OpenQuestions {
    all: BTreeMap<u64, Asked>,
    /// The tickets of each client: one, and one for each of its transactions.
    of: BTreeSet<(ClientId, u64)>,
    bytes: usize,
}

impl OpenQuestions {
    pub(crate) fn insert(&mut self, asked: Asked) {
        self.bytes += asked.bytes;
        self.of.insert((asked.client, asked.ticket));
        self.all.insert(asked.ticket, asked);
    }

    pub(crate) fn get_mut(&mut self, ticket: u64) -> Option<&mut Asked> {
        self.all.get_mut(&ticket)
    }

    /// The newest, if its ticket is this or a later one.
    pub(crate) fn newest_since(&mut self, ticket: u64) -> Option<&mut Asked> {
        self.all.range_mut(ticket..).next_back().map(|(_, asked)| asked)
    }

    pub(crate) fn remove(&mut self, ticket: u64) -> Option<Asked> {
        let asked = self.all.remove(&ticket)?;
        self.bytes -= asked.bytes;
        self.of.remove(&(asked.client, ticket));
        Some(asked)
    }

    /// True if this client has an open question.
    pub(crate) fn is_of(&self, client: ClientId) -> bool {
        self.tickets(client).next().is_some()
    }

    /// True if this client has an open question that changes something: such a client may close itself, and gets the answer before.
    pub(crate) fn is_change_of(&self, client: ClientId) -> bool {
        self.tickets(client).any(|ticket| self.all.get(&ticket).is_some_and(|asked| asked.changes))
    }

    fn tickets(&self, client: ClientId) -> impl Iterator<Item = u64> {
        self.of.range((client, 0)..=(client, u64::MAX)).map(|(_, ticket)| *ticket)
    }

    /// Bytes of all of them.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The client and the bytes of each question.
    pub(crate) fn by_client(&self) -> impl Iterator<Item = (ClientId, usize)> {
        self.all.values().map(|asked| (asked.client, asked.bytes))
    }
}

/// Bytes of a question, and of what is to be made of the answers: both may have the words of the command.
pub(crate) fn asked_bytes(question: &Question, purpose: &Purpose, args: &[&[u8]]) -> usize {
    let words = match (question, purpose) {
        (Question::List { ids: Some(ids), .. }, Purpose::List) => ids.capacity() * size_of::<u64>(),
        _ => args.iter().map(|word| 2 * (word.len() + WORD_BYTES)).sum(),
    };
    ASKED_BYTES + words
}

/// Questions that wait. Each has the round after the last one of its group, so that one of another group waits for one question of
/// each group and not for thousands of one.
#[derive(Debug, Default)]
pub(crate) struct Questions {
    waiting: BTreeMap<Turn, (u64, Question)>,
    /// The round of the last question of each group; those that are over go when there are many.
    last: BTreeMap<Group, u64>,
    /// The round of the last question that was given on.
    round: u64,
    came: u64,
    /// Questions that were given on and are not answered, and the CLIENT LISTs among them.
    under_way: usize,
    lists_under_way: usize,
    /// Until then the time belongs to other requests, as the last answers took so long.
    paid_at: Time,
    /// No question is given on before this.
    rests_until: Option<Time>,
}

impl Questions {
    fn enter(&mut self, group: Group, ticket: u64, question: Question) -> Turn {
        let round = self.last.get(&group).map_or(self.round, |last| *last.max(&self.round)) + 1;
        self.came += 1;
        self.waiting.insert((round, self.came), (ticket, question));
        self.last.insert(group, round);
        if self.last.len() > 2 * self.waiting.len() + GROUPS_KEPT {
            self.last.retain(|_, last| *last > self.round);
        }
        (round, self.came)
    }

    /// Whether the first that waits may be given on.
    fn is_next_free(&self) -> bool {
        let is_free = |question| !is_list(question) || self.lists_under_way == 0;
        let first = self.waiting.first_key_value();
        self.rests_until.is_none()
            && self.under_way < QUESTIONS_MAX
            && first.is_some_and(|(_, (_, question))| is_free(question))
    }

    fn take(&mut self) -> Option<(u64, Question)> {
        let ((round, _), (ticket, question)) = self.waiting.pop_first()?;
        self.round = round;
        self.under_way += 1;
        self.lists_under_way += usize::from(is_list(&question));
        Some((ticket, question))
    }

    /// One that was given on is answered.
    fn end(&mut self, is_list: bool) {
        self.under_way -= 1;
        self.lists_under_way -= usize::from(is_list);
    }

    /// The client of this question is gone. Returns true if the question is removed; a question that changes something keeps its turn.
    fn forget(&mut self, turn: Turn) -> bool {
        let goes = self.waiting.get(&turn).is_some_and(|(_, question)| only_reads(question));
        if goes {
            self.waiting.remove(&turn);
        }
        goes
    }

    /// Answers took so long: others have their time before the next question.
    fn pay(&mut self, now: Time, us: u64) {
        self.paid_at = self.paid_at.max(now) + us.saturating_mul(QUESTIONS_REST);
        let ahead = self.paid_at.since(now);
        if ahead > QUESTIONS_AHEAD_US {
            self.rests_until = Some(now + (ahead - QUESTIONS_AHEAD_US));
        }
    }

    /// When a question that waits can be given on.
    pub(crate) fn at(&self) -> Option<Time> {
        self.rests_until.filter(|_| !self.waiting.is_empty())
    }
}

impl Engine {
    /// A question of this ticket stands in the line of its client's group.
    pub(crate) fn ask_workers(&mut self, ticket: u64, question: Question) {
        let Some(client) = self.asked.get_mut(ticket).map(|asked| asked.client) else { return };
        let group = self.group_of(Some(client));
        let Some(asked) = self.asked.get_mut(ticket) else { return };
        asked.turn = Some(self.grants.questions.enter(group, ticket, question));
        self.ask_next();
    }

    /// Whether an earlier question of this client is open. Answers, of which some are large, do not pile up.
    pub(crate) fn waits_for_answer(&self, call: &Call<'_>) -> bool {
        call.inside.is_none() && self.asked.is_of(call.id)
    }

    /// Gives questions on, as many as may be under way.
    fn ask_next(&mut self) {
        while self.grants.questions.is_next_free()
            && let Some((ticket, question)) = self.grants.questions.take()
        {
            self.actions.push_back(Action::Ask(ticket, question));
        }
    }

    /// Removes a question whose answers are there, and returns it.
    pub(crate) fn take_answered(&mut self, ticket: u64) -> Option<Asked> {
        let asked = self.asked.remove(ticket)?;
        self.grants.questions.end(is_of_list(&asked));
        Some(asked)
    }

    /// The client is gone. respool drops its questions that wait and change nothing.
    pub(crate) fn forget_questions(&mut self, id: ClientId) {
        let tickets: Vec<u64> = self.asked.tickets(id).collect();
        for ticket in tickets {
            let Some(asked) = self.asked.get_mut(ticket) else { continue };
            let (waits, turn) = (asked.waits_for_servers(), asked.turn);
            if waits || turn.is_some_and(|turn| self.grants.questions.forget(turn)) {
                self.asked.remove(ticket);
            }
        }
    }

    /// A question was answered with so many bytes.
    pub(crate) fn pay_question(&mut self, now: Time, reply_bytes: usize) {
        let bytes_us = reply_bytes / ANSWER_BYTES_PER_US;
        let walk_us = self.clients.len() / ANSWER_CLIENTS_PER_US;
        self.grants.questions.pay(now, QUESTION_US + (bytes_us + walk_us) as u64);
        self.ask_next();
    }

    /// The time that belongs to other requests may be over.
    pub(crate) fn run_questions(&mut self, now: Time) {
        if self.grants.questions.rests_until.is_some_and(|until| until <= now) {
            self.grants.questions.rests_until = None;
            self.ask_next();
        }
    }

    /// Bytes of a CLIENT LIST at most. While it is written it exists several times.
    pub(crate) fn list_bytes_max(&self) -> usize {
        self.settings.limits.memory_max_bytes / LIST_PART
    }

    /// For debug builds.
    ///
    /// # Panics
    /// When the queue of questions and their askers disagree.
    pub(crate) fn check_questions(&self) {
        let questions = &self.grants.questions;
        let open = &self.asked;
        assert!(questions.waiting.values().all(|(ticket, _)| open.all.contains_key(ticket)));
        let asked = open.all.values().filter(|asked| !asked.waits_for_servers()).count();
        assert_eq!(asked, questions.waiting.len() + questions.under_way, "questions under way");
        let waiting = questions.waiting.values().filter(|(_, question)| is_list(question)).count();
        let lists = open.all.values().filter(|asked| is_of_list(asked)).count();
        assert_eq!(lists, waiting + questions.lists_under_way, "lists under way");
        assert_eq!(open.bytes, open.all.values().map(|asked| asked.bytes).sum::<usize>());
        assert_eq!(open.of.len(), open.all.len());
    }
}

/// Whether nothing is other than before when it is answered.
pub(crate) const fn only_reads(question: &Question) -> bool {
    matches!(
        question,
        Question::List { .. }
            | Question::Report
            | Question::SlowLog(_)
            | Question::SlowLen
            | Question::Config(ConfigWish::Get(_))
            | Question::HotKeys
            | Question::BigKeys
            | Question::AclLog(_)
    )
}

/// CLIENT TRACKING asks for the line of one client.
const fn is_list(question: &Question) -> bool {
    matches!(question, Question::List { .. })
}

fn is_of_list(asked: &Asked) -> bool {
    matches!(asked.purpose, Purpose::List | Purpose::Track(_))
}

/// The bytes of all lines; `None`: one worker has more than it may tell.
pub(crate) fn lines_bytes(answers: &[Answer]) -> Option<usize> {
    let of_lines = |lines: &[(u64, String)]| lines.iter().map(|(_, line)| line.len() + 1).sum();
    let each = answers.iter().map(|answer| match answer {
        Answer::TooLarge => None,
        Answer::Lines(lines) => Some(of_lines(lines)),
        _ => Some(0),
    });
    each.sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_question_of_another_group_does_not_wait_for_all_of_one() {
        let mut questions = Questions::default();
        let [one, other] = [1, 2].map(Group::of_user);
        for ticket in 0..100 {
            questions.enter(one, ticket, Question::Report);
        }
        assert_eq!(questions.take(), Some((0, Question::Report)));
        questions.enter(other, 200, Question::SlowLen);
        questions.enter(other, 201, Question::SlowLen);
        let order: [u64; 4] = core::array::from_fn(|_| questions.take().expect("one waits").0);
        assert_eq!(order, [1, 200, 2, 201]);
    }

    #[test]
    fn small_answers_cost_no_wait_and_a_large_one_leaves_time_for_others() {
        let mut questions = Questions::default();
        let now = Time(1_000);
        questions.enter(Group::default(), 1, Question::Report);
        for _ in 0..10 {
            questions.pay(now, 1);
        }
        assert_eq!(questions.at(), None);
        questions.pay(now, 100_000);
        let rests = questions.at().expect("others have their time").since(now);
        assert!(rests > 100_000 && rests < 100_000 * (QUESTIONS_REST + 1));
    }
}
