"""One-sided MPI: each rank changes memory of others, and checks what was changed in its own."""

from array import array

from mpi4py import MPI

world = MPI.COMM_WORLD
rank, size = world.rank, world.size
memory = array("q", [0] * 1000)
win = MPI.Win.Create(memory, 8, comm=world)
left, right = (rank - 1) % size, (rank + 1) % size
TURNS = 50


def words(*values):
    return [array("q", values), MPI.INT64_T]


def at(place, count=1):
    return (place, count, MPI.INT64_T)


win.Fence()
win.Put(words(*[100 + rank] * 10), right, target=at(rank * 10, 10))
win.Fence()
assert list(memory[left * 10 : left * 10 + 10]) == [100 + left] * 10, "put: wrong words"

got = words(*[0] * 10)
win.Get(got, right, target=at(rank * 10, 10))
win.Fence()
assert list(got[0]) == [100 + rank] * 10, "get: wrong words"

win.Accumulate(words(rank + 1), 0, target=at(500), op=MPI.SUM)
win.Accumulate(words(rank + 1), 0, target=at(501), op=MPI.MAX)
win.Fence()
if rank == 0:
    assert list(memory[500:502]) == [size * (size + 1) // 2, size], "accumulate: wrong words"

# Every number is fetched once, whoever is faster.
fetched = []
for _ in range(TURNS):
    was = words(0)
    win.Lock(0)
    win.Fetch_and_op(words(1), was, 0, 600, MPI.SUM)
    win.Unlock(0)
    fetched.append(was[0][0])
assert fetched == sorted(fetched), "fetch and add: not in order"
numbers = sorted(number for part in world.allgather(fetched) for number in part)
assert numbers == list(range(TURNS * size)), "fetch and add: a number twice"

old = words(0)
win.Lock(0)
win.Compare_and_swap(words(rank + 7), words(0), old, 0, 700)
win.Unlock(0)
assert world.allreduce(int(old[0][0] == 0)) == 1, "compare and swap: not one winner"

win.Free()
print(f"checked by rank {rank} of {size}", flush=True)
