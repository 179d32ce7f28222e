//! Why a peer is lost.

/// Why nothing more will come from the other end of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PeerLoss {
    /// The peer dropped its end without closing it.
    #[error("it dropped its end without closing it")]
    Abandoned,
    /// The peer's process ended.
    #[error("its process ended")]
    Process,
    /// The peer is gone or its host is lost; which one is unknown.
    #[error("it has ended, or its host is lost")]
    Gone,
    /// The peer's host does not respond: it is dead, paused or unreachable.
    #[error("its host gives no sign of life")]
    Host,
    /// The peer's host or card was restarted, or was stalled for long. It has lost what both ends
    /// had in common, but responds again.
    #[error("its host or card started anew")]
    HostReset,
    /// This host's link was lost, or its card discarded what arrived while the host was stalled.
    #[error("the link is lost")]
    Link,
    /// This host's card was reset or removed, or has failed.
    #[error("this host's card was reset")]
    CardReset,
    /// The peer violated the protocol.
    #[error("it sent {0}")]
    Violation(&'static str),
    /// The peer found an invalid value stored by this end, and has ended the channel.
    #[error("it says that what was stored for it makes no sense")]
    Blamed,
    /// Notifications were overwritten, so that it is unknown what the peer sent.
    #[error("notifications of what it sent were overwritten")]
    Overrun,
}
