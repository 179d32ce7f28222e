//! Ownership of ports by users.
//!
//! Other hosts trust a host id: the cards of privileged slots check it. So an id stays reserved for
//! its last user after the card has left, and no other user becomes that host.

use std::time::{Duration, Instant};

use hamlyn_fabric::HostId;
use thiserror::Error;

/// A user's number.
pub type User = u32;

/// Which users may attach cards, to how many ports, and how long a port stays reserved for them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    /// Users that may attach at all.
    pub users: Vec<User>,
    /// Largest number of ports of a user, including those that are reserved for it.
    pub ports_for_each: u16,
    /// How long a port stays reserved for a user whose card has left. `None`: as long as the switch
    /// runs.
    pub keep: Option<Duration>,
}

impl Default for Policy {
    /// The switch's own user and root may have all ports.
    fn default() -> Policy {
        let mut users = vec![rustix::process::geteuid().as_raw(), 0];
        users.dedup();
        Policy { users, ports_for_each: u16::MAX, keep: None }
    }
}

/// Why a user is denied a port.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Denial {
    /// This switch does not serve that user.
    #[error("user {user} may not attach here (allowed: users {}; see --allow-user)", list(allowed))]
    User {
        /// The client's user.
        user: User,
        /// Users that it serves.
        allowed: Vec<User>,
    },
    /// The id is reserved for another user.
    #[error("host id {host} is kept for user {owner}, its last owner (not for user {user})")]
    Kept {
        /// The id requested.
        host: HostId,
        /// The user that owns it.
        owner: User,
        /// The client's user.
        user: User,
    },
    /// The user already has the largest number of ports.
    #[error(
        "user {user} has {have} ports, of which some may be kept for it (limit {limit}; see --user-ports)"
    )]
    TooMany {
        /// The client's user.
        user: User,
        /// Number of ports that it owns.
        have: usize,
        /// The largest number of ports.
        limit: u16,
    },
    /// There is no free port that is not reserved for another user.
    #[error("no port is free for user {user}: all {ports} are taken, or kept for other users")]
    Full {
        /// The client's user.
        user: User,
        /// Number of all ports.
        ports: usize,
    },
}

fn list(users: &[User]) -> String {
    users.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Owner {
    user: User,
    /// When its card left; `None` while it is attached.
    left: Option<Instant>,
}

/// The user that owns each port. It uses no sockets and no clocks.
#[derive(Debug)]
pub struct Owners {
    policy: Policy,
    ports: Vec<Option<Owner>>,
    /// The first user of each port.
    first: Vec<Option<User>>,
}

impl Owners {
    /// Creates ports that no user owns yet.
    pub fn new(ports: u16, policy: Policy) -> Owners {
        Owners { policy, ports: vec![None; ports.into()], first: vec![None; ports.into()] }
    }

    /// Returns the policy.
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// Returns the port to request from the crossbar for a user's card: the wanted one, or the
    /// first that `is_free`. It prefers the user's own ports to ports without an owner, so that
    /// repeated attaching does not use up all ports.
    ///
    /// The crossbar, not this function, refuses a wanted port that is out of range or taken.
    pub fn choose(
        &self,
        user: User,
        wanted: Option<HostId>,
        now: Instant,
        is_free: impl Fn(HostId) -> bool,
    ) -> Result<HostId, Denial> {
        if !self.policy.users.contains(&user) {
            return Err(Denial::User { user, allowed: self.policy.users.clone() });
        }
        let owner = |port: usize| self.owner(port, now);
        let host = match wanted {
            Some(host) => host,
            None => {
                let find = |whose: Option<User>| {
                    let mut ports = 0..self.ports.len();
                    ports.find(|&port| owner(port) == whose && is_free(HostId(port as u16)))
                };
                let found = find(Some(user)).or_else(|| find(None));
                HostId(found.ok_or(Denial::Full { user, ports: self.ports.len() })? as u16)
            }
        };
        match owner(host.index()) {
            Some(owner) if owner == user => return Ok(host),
            Some(owner) => return Err(Denial::Kept { host, owner, user }),
            None => {}
        }
        let have = (0..self.ports.len()).filter(|&port| owner(port) == Some(user)).count();
        let limit = self.policy.ports_for_each;
        if have >= limit.into() { Err(Denial::TooMany { user, have, limit }) } else { Ok(host) }
    }

    /// Returns whether a user that is about to get a port is the first to have it. Express memory
    /// belongs to the first user permanently: one of its machines may still have it mapped, long
    /// after its card has left.
    pub fn is_first(&mut self, host: HostId, user: User) -> bool {
        self.first.get_mut(host.index()).is_some_and(|first| *first.get_or_insert(user) == user)
    }

    /// Records that a user's card is attached to a port.
    pub fn attached(&mut self, host: HostId, user: User) {
        if let Some(port) = self.ports.get_mut(host.index()) {
            *port = Some(Owner { user, left: None });
        }
    }

    /// Records that the card has left its port.
    pub fn left(&mut self, host: HostId, now: Instant) {
        if let Some(owner) = self.ports.get_mut(host.index()).and_then(Option::as_mut) {
            owner.left = Some(now);
        }
    }

    /// Returns the user whose card has a port, or had it last.
    pub(crate) fn user(&self, host: HostId) -> Option<User> {
        self.ports.get(host.index())?.map(|owner| owner.user)
    }

    /// Returns the owner of a port.
    fn owner(&self, port: usize, now: Instant) -> Option<User> {
        let owner = (*self.ports.get(port)?)?;
        let over = |left: Instant| self.policy.keep.is_some_and(|keep| now.duration_since(left) >= keep);
        if owner.left.is_some_and(over) { None } else { Some(owner.user) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANN: User = 1000;
    const BOB: User = 1001;

    /// Four ports for two users.
    fn owners(ports_for_each: u16, keep: Option<Duration>) -> Owners {
        Owners::new(4, Policy { users: vec![ANN, BOB], ports_for_each, keep })
    }

    fn choose(owners: &Owners, user: User, wanted: Option<u16>) -> Result<u16, String> {
        let free = |host: HostId| owners.ports[host.index()].is_none_or(|owner| owner.left.is_some());
        let chosen = owners.choose(user, wanted.map(HostId), Instant::now(), free);
        chosen.map(|host| host.0).map_err(|denial| denial.to_string())
    }

    #[test]
    fn strangers_are_refused() {
        let reason = choose(&owners(4, None), 7, None).unwrap_err();
        assert_eq!(reason, "user 7 may not attach here (allowed: users 1000, 1001; see --allow-user)");
    }

    #[test]
    fn id_is_kept_for_its_last_user() {
        let mut owners = owners(4, None);
        owners.attached(HostId(0), ANN);
        owners.left(HostId(0), Instant::now());
        let reason = choose(&owners, BOB, Some(0)).unwrap_err();
        assert_eq!(reason, "host id 0 is kept for user 1000, its last owner (not for user 1001)");
        // Without a wanted id, the user gets another port.
        assert_eq!(choose(&owners, BOB, None), Ok(1));
        assert_eq!(choose(&owners, ANN, Some(0)), Ok(0));
        assert_eq!(choose(&owners, ANN, None), Ok(0));
        // The crossbar checks the range, not this.
        assert_eq!(choose(&owners, ANN, Some(9)), Ok(9));
    }

    #[test]
    fn reattaching_user_gets_its_old_port() {
        let mut owners = owners(4, None);
        owners.attached(HostId(2), ANN);
        assert_eq!(choose(&owners, ANN, None), Ok(0));
        owners.left(HostId(2), Instant::now());
        assert_eq!(choose(&owners, ANN, None), Ok(2));
    }

    #[test]
    fn id_is_free_after_the_keep_time() {
        let mut owners = owners(4, Some(Duration::from_secs(60)));
        let now = Instant::now();
        owners.attached(HostId(0), ANN);
        let bob = |owners: &Owners, after: u64| {
            owners.choose(BOB, Some(HostId(0)), now + Duration::from_secs(after), |_| true)
        };
        // The time does not start while the card is attached.
        assert!(bob(&owners, 1000).is_err());
        owners.left(HostId(0), now);
        assert!(bob(&owners, 59).is_err());
        assert_eq!(bob(&owners, 60), Ok(HostId(0)));
    }

    #[test]
    fn first_user_of_an_id_never_changes() {
        let mut owners = owners(4, Some(Duration::ZERO));
        assert!(owners.is_first(HostId(0), ANN));
        owners.attached(HostId(0), ANN);
        owners.left(HostId(0), Instant::now());
        assert_eq!(choose(&owners, BOB, Some(0)), Ok(0), "the id is free again");
        assert!(!owners.is_first(HostId(0), BOB) && owners.is_first(HostId(0), ANN));
        assert!(owners.is_first(HostId(1), BOB) && !owners.is_first(HostId(9), BOB));
    }

    #[test]
    fn kept_ports_count_towards_the_limit() {
        let mut owners = owners(2, None);
        owners.attached(HostId(0), ANN);
        owners.attached(HostId(3), ANN);
        owners.left(HostId(0), Instant::now());
        let reason = choose(&owners, ANN, Some(1)).unwrap_err();
        assert_eq!(
            reason,
            "user 1000 has 2 ports, of which some may be kept for it (limit 2; see --user-ports)"
        );
        assert_eq!(choose(&owners, ANN, None), Ok(0));
        assert_eq!(choose(&owners, BOB, None), Ok(1));
        owners.attached(HostId(0), ANN);
        assert!(choose(&owners, ANN, None).unwrap_err().contains("limit 2"));
    }

    #[test]
    fn switch_with_all_ports_kept_is_full() {
        let mut owners = owners(4, None);
        for host in 0..4 {
            owners.attached(HostId(host), ANN);
            owners.left(HostId(host), Instant::now());
        }
        let reason = choose(&owners, BOB, None).unwrap_err();
        assert_eq!(reason, "no port is free for user 1001: all 4 are taken, or kept for other users");
    }
}
