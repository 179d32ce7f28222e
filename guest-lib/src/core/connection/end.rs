//! Ends of connections.

use std::fmt;

use hamlyn_abi::uapi::{
    ULN_END_BACKLOG, ULN_END_CARD_RESET, ULN_END_CLOSED, ULN_END_DIED, ULN_END_HOST_LOST, ULN_END_HOST_RESET,
    ULN_END_LAPSED, ULN_END_LINK_LOST, ULN_END_NO_NAME, ULN_END_REJECTED,
};

/// Why a connection ended, or was not established.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum EndReason {
    /// The peer closed it gracefully.
    Closed,
    /// The peer's process died, or dropped the connection without closing it.
    Died,
    /// The peer's host does not respond: it is dead, paused or unreachable.
    HostLost,
    /// The peer's host or card was restarted or was stalled for long, and has lost the connection's
    /// state.
    HostReset,
    /// This host's link went down.
    LinkLost,
    /// This host was stalled, and its card discarded what arrived meanwhile (section 2.8).
    Lapsed,
    /// This host's card was reset or removed, or has failed.
    CardReset,
    /// The host has no listener of that name.
    NoName,
    /// The listener's backlog is full.
    BacklogFull,
    /// The listener rejected the request, or died while it was pending.
    Rejected,
}

impl EndReason {
    /// All reasons.
    pub const ALL: [EndReason; 10] = [
        EndReason::Closed,
        EndReason::Died,
        EndReason::HostLost,
        EndReason::HostReset,
        EndReason::LinkLost,
        EndReason::Lapsed,
        EndReason::CardReset,
        EndReason::NoName,
        EndReason::BacklogFull,
        EndReason::Rejected,
    ];

    pub(super) fn from_abi(reason: u32) -> Option<Self> {
        EndReason::ALL.into_iter().find(|candidate| candidate.to_abi() == reason)
    }

    fn to_abi(self) -> u32 {
        match self {
            EndReason::Closed => ULN_END_CLOSED,
            EndReason::Died => ULN_END_DIED,
            EndReason::HostLost => ULN_END_HOST_LOST,
            EndReason::HostReset => ULN_END_HOST_RESET,
            EndReason::LinkLost => ULN_END_LINK_LOST,
            EndReason::Lapsed => ULN_END_LAPSED,
            EndReason::CardReset => ULN_END_CARD_RESET,
            EndReason::NoName => ULN_END_NO_NAME,
            EndReason::BacklogFull => ULN_END_BACKLOG,
            EndReason::Rejected => ULN_END_REJECTED,
        }
    }

    /// Returns whether the peer's process caused the end, and may have passed data with it.
    pub(super) fn is_from_peer(self) -> bool {
        matches!(self, EndReason::Closed | EndReason::Rejected)
    }

    /// Returns a short name without blanks, for logs and scripts.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            EndReason::Closed => "closed",
            EndReason::Died => "died",
            EndReason::HostLost => "host_lost",
            EndReason::HostReset => "host_reset",
            EndReason::LinkLost => "link_lost",
            EndReason::Lapsed => "lapsed",
            EndReason::CardReset => "card_reset",
            EndReason::NoName => "no_name",
            EndReason::BacklogFull => "backlog_full",
            EndReason::Rejected => "rejected",
        }
    }
}

impl fmt::Display for EndReason {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            EndReason::Closed => "the peer closed the connection",
            EndReason::Died => "the peer's process died",
            EndReason::HostLost => "the peer's host gives no sign of life",
            EndReason::HostReset => "the peer's host or card started anew",
            EndReason::LinkLost => "this host's link went down",
            EndReason::Lapsed => "this host stood still, and its card discarded what arrived",
            EndReason::CardReset => "this host's card was reset",
            EndReason::NoName => "no listener has that name or port",
            EndReason::BacklogFull => "too many requests wait for the listener",
            EndReason::Rejected => "the listener rejected the connection",
        })
    }
}

/// End of a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct End {
    /// The reason.
    pub reason: EndReason,
    /// Data that the peer passed when it closed or rejected; otherwise empty.
    pub private: Vec<u8>,
}

impl fmt::Display for End {
    /// Appends the peer's data if it is a text and the peer rejected the connection.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.reason.fmt(out)?;
        match std::str::from_utf8(&self.private) {
            Ok(text) if self.is_explained() => write!(out, ": {text}"),
            _ => Ok(()),
        }
    }
}

impl End {
    fn is_explained(&self) -> bool {
        let printable = |byte: &u8| byte.is_ascii_graphic() || *byte == b' ';
        self.reason == EndReason::Rejected && !self.private.is_empty() && self.private.iter().all(printable)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejection_text_includes_printable_reason() {
        let text = |reason, private: &[u8]| End { reason, private: private.to_vec() }.to_string();
        assert_eq!(
            text(EndReason::Rejected, b"all 9 slots are in use"),
            "the listener rejected the connection: all 9 slots are in use"
        );
        assert_eq!(text(EndReason::Rejected, b"\x1b[2J"), "the listener rejected the connection");
        assert_eq!(text(EndReason::Closed, b"bye"), "the peer closed the connection");
    }

    #[test]
    fn end_reasons_have_numbers_and_names() {
        for (index, reason) in EndReason::ALL.into_iter().enumerate() {
            assert_eq!(reason.to_abi() as usize, index + 1, "{reason:?}");
            assert_eq!(EndReason::from_abi(reason.to_abi()), Some(reason));
            assert!(!reason.to_string().is_empty() && !reason.name().contains(' '));
        }
        assert_eq!(EndReason::from_abi(0), None);
        assert_eq!(EndReason::from_abi(11), None);
    }
}
