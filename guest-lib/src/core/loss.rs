//! Why a peer is lost.

/// Why nothing more is to be expected of the other end of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PeerLoss {
    /// It dropped its end without closing it.
    #[error("it dropped its end without closing it")]
    Abandoned,
    /// Its process ended.
    #[error("its process ended")]
    Process,
    /// It is no more, or its host is lost: nobody knows which.
    #[error("it is no more, or its host is lost")]
    Gone,
    /// Its host died, was reset or stopped.
    #[error("its host died, was reset or stopped")]
    Host,
    /// The link between the two is lost.
    #[error("the link is lost")]
    Link,
    /// It sent what the protocol does not allow.
    #[error("it sent {0}")]
    Violation(&'static str),
    /// It has ended what the two had, as it found that what this end had stored makes no sense.
    #[error("it says that what was stored for it makes no sense")]
    Blamed,
    /// Notifications were overwritten, so that nobody knows what it sent.
    #[error("notifications of what it sent were overwritten")]
    Overrun,
}
