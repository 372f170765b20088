//! Answers on their way, and how much memory those take that nobody reads.
//!
//! ```text
//!   GET /clients ─▶ [PREPARED_MAX] ─▶ 16 MB ─▶ small: sent as it is
//!                                              └────▶ large: kept here ─ a piece at a time ─▶ the connection
//!                                                       no room? the one of which nothing was taken for the longest time goes
//! ```
//! Of a large answer the connection gets a piece when it has sent the one before, so what waits is here and is counted. Whoever asks for megabytes
//! and does not read them has a connection that ends in the middle when others need the room.
//!
//! Not here: how long a connection may take for an answer (`listen`).
//!
//! Invariant: large answers take [`KEPT_BYTES_MAX`] together, or there is only one of them.

use super::App;
use axum::body::{Body, Bytes, HttpBody, to_bytes};
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http_body::{Frame, SizeHint};
use std::collections::BTreeMap;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use tokio::sync::Semaphore;
use tokio::time::Instant;

/// Answers that are put together at a time. One may be all that the workers tell, twice.
const PREPARED_MAX: usize = 1;

/// From so many bytes on an answer is large.
const LARGE_BYTES: usize = 64 << 10;

/// What large answers take together.
const KEPT_BYTES_MAX: usize = 16 << 20;

/// What a connection gets of a large answer at a time.
const PIECE_BYTES: usize = 16 << 10;

/// See the module.
#[derive(Clone)]
pub(super) struct Answers(Arc<Shared>);

struct Shared {
    preparing: Semaphore,
    kept: Mutex<Kept>,
}

/// Large answers.
#[derive(Default)]
struct Kept {
    next: u64,
    /// What is left of each, and when something of it was taken last.
    list: BTreeMap<u64, (Bytes, Instant)>,
    bytes: usize,
}

impl Kept {
    fn add(&mut self, bytes: Bytes) -> u64 {
        while self.bytes + bytes.len() > KEPT_BYTES_MAX
            && let Some(stalest) = self.list.iter().min_by_key(|(_, (_, at))| *at)
        {
            let id = *stalest.0;
            self.remove(id);
        }
        self.next += 1;
        self.bytes += bytes.len();
        self.list.insert(self.next, (bytes, Instant::now()));
        self.next
    }

    fn remove(&mut self, id: u64) {
        self.bytes -= self.list.remove(&id).map_or(0, |(bytes, _)| bytes.len());
    }

    /// The next piece of an answer; `None`: it had to go.
    fn take(&mut self, id: u64) -> Option<Bytes> {
        let (bytes, at) = self.list.get_mut(&id)?;
        // A part of it would keep all of it.
        let piece = Bytes::copy_from_slice(&bytes[..bytes.len().min(PIECE_BYTES)]);
        *bytes = bytes.slice(piece.len()..);
        *at = Instant::now();
        self.bytes -= piece.len();
        Some(piece)
    }
}

impl Default for Answers {
    fn default() -> Self {
        let (preparing, kept) = (Semaphore::new(PREPARED_MAX), Mutex::default());
        Self(Arc::new(Shared { preparing, kept }))
    }
}

impl Answers {
    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.0.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The same answer, of which a large one is kept here.
    async fn keep(&self, response: Response) -> Response {
        let is_large = |bytes: u64| bytes >= LARGE_BYTES as u64;
        if !response.body().size_hint().exact().is_some_and(is_large) {
            return response;
        }
        let (parts, body) = response.into_parts();
        // It is there as a whole.
        let Ok(bytes) = to_bytes(body, usize::MAX).await else {
            return axum::http::StatusCode::INTERNAL_SERVER_ERROR.into_response();
        };
        let left = bytes.len();
        let id = self.kept().add(bytes);
        Response::from_parts(parts, Body::new(Large { answers: self.clone(), id, left }))
    }
}

/// What a connection knows of a large answer.
struct Large {
    answers: Answers,
    id: u64,
    left: usize,
}

impl HttpBody for Large {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        if self.left == 0 {
            return Poll::Ready(None);
        }
        let piece = self.answers.kept().take(self.id);
        let Some(piece) = piece else {
            return Poll::Ready(Some(Err(io::ErrorKind::ConnectionAborted.into())));
        };
        self.left -= piece.len();
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left as u64)
    }
}

impl Drop for Large {
    fn drop(&mut self) {
        self.answers.kept().remove(self.id);
    }
}

/// Has requests answered that only look, a few at a time, and keeps what is large of the answers. A request that changes something waits for nobody.
pub(super) async fn bound(State(app): State<App>, request: Request, next: Next) -> Response {
    let is_bound = super::guard::is_bound(request.method(), request.uri().path());
    let preparing = match is_bound {
        true => app.answers.0.preparing.acquire().await.ok(),
        false => None,
    };
    let response = next.run(request).await;
    let response = app.answers.keep(response).await;
    drop(preparing);
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn large(answers: &Answers, bytes: usize) -> Body {
        answers.keep(Body::from(vec![b'x'; bytes]).into_response()).await.into_body()
    }

    #[tokio::test]
    async fn a_large_answer_comes_whole_and_its_room_is_free_again() {
        let answers = Answers::default();
        let body = large(&answers, 1_000_000).await;
        assert_eq!((body.size_hint().exact(), answers.kept().bytes), (Some(1_000_000), 1_000_000));
        let bytes = to_bytes(body, usize::MAX).await.expect("the answer");
        assert_eq!((bytes.len(), answers.kept().bytes), (1_000_000, 0));
        let unread = large(&answers, 1_000_000).await;
        drop(unread);
        assert!(answers.kept().list.is_empty());
        drop(large(&answers, LARGE_BYTES - 1).await);
        assert_eq!(answers.kept().next, 2, "a small one is not kept");
    }

    #[tokio::test]
    async fn answers_that_nobody_reads_make_room_and_one_that_is_read_stays() {
        let answers = Answers::default();
        let bytes = KEPT_BYTES_MAX / 3;
        let mut read = large(&answers, bytes).await;
        let mut unread = Vec::new();
        for _ in 0..20 {
            unread.push(large(&answers, bytes).await);
            std::future::poll_fn(|context| Pin::new(&mut read).poll_frame(context)).await;
            assert!(answers.kept().bytes <= KEPT_BYTES_MAX);
        }
        let left = to_bytes(read, usize::MAX).await.expect("the rest of it");
        assert_eq!(left.len(), bytes - 20 * PIECE_BYTES);
        let first = to_bytes(unread.remove(0), usize::MAX).await;
        assert!(first.is_err(), "an answer that had to go ended as if it were whole");
        // One that is larger than all of the room is alone.
        let huge = large(&answers, KEPT_BYTES_MAX + 1).await;
        assert_eq!(answers.kept().list.len(), 1);
        assert_eq!(to_bytes(huge, usize::MAX).await.expect("all").len(), KEPT_BYTES_MAX + 1);
    }
}
