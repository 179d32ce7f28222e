# What MPI programs do, with each result checked. Each rank prints a line in the end, or fails.
from array import array
from mpi4py import MPI

world = MPI.COMM_WORLD
rank, size = world.rank, world.size
# Below and above the longest message that is sent at once, and above a ring.
COUNTS = [0, 1, 1500, 3000, 40_000]


def values(owner, count):
    return array("q", range(owner * 1_000_003, owner * 1_000_003 + count))


def same(got, wanted, what):
    assert got == wanted, f"rank {rank}: {what}: wrong values"


def ring(count):
    """Every rank sends to the next, with and without a receive that waits."""
    left, right = (rank - 1) % size, (rank + 1) % size
    got = array("q", bytes(8 * count))
    receive = world.Irecv([got, MPI.INT64_T], left, 5)
    world.Send([values(rank, count), MPI.INT64_T], right, 5)
    receive.Wait()
    same(got, values(left, count), "ring")
    send = world.Isend([values(rank, count), MPI.INT64_T], right, 6)
    status = MPI.Status()
    world.Probe(left, MPI.ANY_TAG, status)
    assert (status.Get_tag(), status.Get_count(MPI.INT64_T)) == (6, count)
    got = array("q", bytes(8 * count))
    world.Recv([got, MPI.INT64_T], MPI.ANY_SOURCE, 6)
    send.Wait()
    same(got, values(left, count), "ring, probed")


def matched(count):
    """A message that is probed belongs to its probe, whatever is received before."""
    left, right = (rank - 1) % size, (rank + 1) % size
    sends = [world.Isend([values(rank + turn, count), MPI.INT64_T], right, 7) for turn in range(2)]
    message = world.Mprobe(left, 7)
    second, first = array("q", bytes(8 * count)), array("q", bytes(8 * count))
    world.Recv([second, MPI.INT64_T], left, 7)
    message.Recv([first, MPI.INT64_T])
    MPI.Request.Waitall(sends)
    same(first, values(left, count), "matched, first")
    same(second, values(left + 1, count), "matched, second")


def collectives(count):
    total = sum(range(size))
    data = values(0, count) if rank == 0 else array("q", bytes(8 * count))
    world.Bcast([data, MPI.INT64_T], 0)
    same(data, values(0, count), "Bcast")
    got = array("q", bytes(8 * count))
    world.Allreduce([values(rank, count), MPI.INT64_T], [got, MPI.INT64_T], MPI.SUM)
    same(got, array("q", range(total * 1_000_003, total * 1_000_003 + size * count, size)), "Allreduce")
    got = array("q", bytes(8 * count))
    world.Scan([values(rank, count), MPI.INT64_T], [got, MPI.INT64_T], MPI.MAX)
    same(got, values(rank, count), "Scan")
    everything = array("q", bytes(8 * count * size))
    wanted = array("q")
    for other in range(size):
        wanted.extend(values(other, count))
    world.Allgather([values(rank, count), MPI.INT64_T], [everything, MPI.INT64_T])
    same(everything, wanted, "Allgather")
    sent, got, wanted = array("q"), array("q", bytes(8 * count * size)), array("q")
    for other in range(size):
        sent.extend(values(rank * size + other, count))
        wanted.extend(values(other * size + rank, count))
    world.Alltoall([sent, MPI.INT64_T], [got, MPI.INT64_T])
    same(got, wanted, "Alltoall")
    got = array("q", bytes(8 * count))
    world.Reduce_scatter_block([sent, MPI.INT64_T], [got, MPI.INT64_T], MPI.SUM)
    first = sum((other * size + rank) * 1_000_003 for other in range(size))
    same(got, array("q", range(first, first + size * count, size)), "Reduce_scatter")
    gathered = world.gather({"rank": rank, "values": values(rank, count).tolist()[:10]}, root=size - 1)
    if rank == size - 1:
        assert [entry["rank"] for entry in gathered] == list(range(size))
    parts = world.scatter([values(other, 3).tolist() for other in range(size)] if rank == 0 else None, root=0)
    assert parts == values(rank, 3).tolist()


def many():
    """More messages than there is room for, to one rank that does not receive yet."""
    count = 1000
    if rank == 0:
        world.Barrier()
        got = [array("q", [0]) for _ in range(count * (size - 1))]
        requests, number = [], 0
        for other in range(1, size):
            for turn in range(count):
                requests.append(world.Irecv([got[number], MPI.INT64_T], other, 8))
                number += 1
        MPI.Request.Waitall(requests)
        wanted = [other * count + turn for other in range(1, size) for turn in range(count)]
        assert [entry[0] for entry in got] == wanted, "many: wrong values"
    else:
        kept = [array("q", [rank * count + turn]) for turn in range(count)]
        requests = [world.Isend([entry, MPI.INT64_T], 0, 8) for entry in kept]
        world.Barrier()
        MPI.Request.Waitall(requests)
    world.Barrier()


def split():
    """Communicators of half of the ranks, with messages of the same tag in both."""
    half = world.Split(rank % 2, -rank)
    ranks = half.allgather(rank)
    assert ranks == sorted((other for other in range(size) if other % 2 == rank % 2), reverse=True)
    copy = half.Dup()
    got = copy.sendrecv(rank, (half.rank + 1) % half.size, 5, None, (half.rank - 1) % half.size, 5)
    assert got == ranks[(half.rank - 1) % half.size]
    copy.Free()
    half.Free()


def step(bodies, mine):
    """Positions and speeds of some bodies after a step, from the positions of all."""
    moved = []
    for index in mine:
        x, y, vx, vy = bodies[index]
        for other_x, other_y, _, _ in bodies:
            dx, dy = other_x - x, other_y - y
            pull = 1e-4 / (dx * dx + dy * dy + 1e-3)
            vx, vy = vx + dx * pull, vy + dy * pull
        moved.append((x + vx, y + vy, vx, vy))
    return moved


def bodies_in_parallel():
    """An N-body program: each rank has its bodies, and all hear of all after each step."""
    bodies = [(index % 5 / 5, index % 7 / 7, 0.0, 0.0) for index in range(24)]
    alone = bodies
    mine = range(rank * len(bodies) // size, (rank + 1) * len(bodies) // size)
    for _ in range(5):
        alone = step(alone, range(len(alone)))
        bodies = [body for part in world.allgather(step(bodies, mine)) for body in part]
    same(bodies, alone, "bodies")


for count in COUNTS:
    ring(count)
    matched(count)
    collectives(count)
many()
if size > 1:
    split()
bodies_in_parallel()
world.Barrier()
print(f"checked by rank {rank} of {size}", flush=True)
