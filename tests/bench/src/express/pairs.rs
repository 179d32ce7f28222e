//! The machines.

use crate::engine::machines::Pair;
use crate::engine::plan::Planned;

/// Two machines with express memory, and with the alternatives to a card. No card's thread takes
/// part in a message, so each processor has its core to itself. Each host receives in half of the
/// shared memory; ivshmem has the same size.
pub(crate) const EXPRESS: Pair = Pair {
    card_args: "--express shared --express-part 8M",
    share_all: true,
    ..Pair::of("hamlyn").with_peers()
};

/// Two ends that use the same ring in ivshmem's memory, which only root may map.
pub(crate) fn by_ivshmem(name: impl Into<String>, [near, far]: [&str; 2], arguments: &str) -> Planned {
    let line = |role: &str| format!("{role} --through ivshmem {arguments}");
    EXPRESS.exchange(name, &line(near), &line(far)).by_root()
}
