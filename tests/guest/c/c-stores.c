/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Makes stores of every kind to pages whose guest-physical addresses it prints, for a program that
 * snoops them. It needs no card.
 *
 * It prints the addresses of its pages, waits for the name of a kind of stores, and prints the
 * stores it made: offset, width, bytes.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <immintrin.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE 4096
#define PAGES 3
#define MOST 8192

/* Pages that are contiguous here, and anywhere in the machine's memory. */
static unsigned char *pages;

static struct did {
	unsigned int offset, width;
	unsigned char bytes[16];
} all[MOST];
static unsigned int count;

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

static void did_piece(unsigned int offset, unsigned int width)
{
	struct did *did = &all[count++];

	if (count == MOST || width > sizeof(did->bytes))
		fail("too much");
	did->offset = offset;
	did->width = width;
	memcpy(did->bytes, pages + offset, width);
}

/*
 * Records a store that was just made, with the value that is there now. A store that crosses a page
 * counts as two.
 */
static void did(unsigned int offset, unsigned int width)
{
	unsigned int first = PAGE - offset % PAGE;

	if (first >= width) {
		did_piece(offset, width);
	} else {
		did_piece(offset, first);
		did_piece(offset + first, width - first);
	}
}

static void print_all(void)
{
	for (unsigned int i = 0; i < count; i++) {
		printf("%u %u ", all[i].offset, all[i].width);
		for (unsigned int byte = 0; byte < all[i].width; byte++)
			printf("%02x", all[i].bytes[byte]);
		printf("\n");
	}
	printf("end\n");
	fflush(stdout);
}

static unsigned long long physical(const void *page)
{
	int file = open("/proc/self/pagemap", O_RDONLY);
	uint64_t entry = 0;

	if (file < 0 || pread(file, &entry, 8, (uintptr_t)page / PAGE * 8) != 8)
		fail("/proc/self/pagemap");
	close(file);
	/* Without the privilege to read it, it is 0. */
	entry &= (1ULL << 55) - 1;
	if (entry == 0)
		fail("no physical address");
	return entry * PAGE;
}

/* Allocates pages that the kernel is unlikely to place next to each other. */
static void make_pages(void)
{
	volatile unsigned char *between;

	pages = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	between = mmap(NULL, 64 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (pages == MAP_FAILED || between == MAP_FAILED)
		fail("mmap");
	for (int page = PAGES - 1; page >= 0; page--) {
		memset(pages + page * PAGE, 0x11, PAGE);
		for (int other = 0; other < 16; other++)
			between[(page * 16 + other) * PAGE] = 1;
	}
	if (mlock(pages, PAGES * PAGE))
		fail("mlock");
	for (int page = 0; page < PAGES; page++)
		printf("%llu%c", physical(pages + page * PAGE), page + 1 < PAGES ? ' ' : '\n');
	fflush(stdout);
}

#define MOV(type, letter, offset, value) do {                                                   \
	__asm__ volatile("mov" letter " %1, %0"                                                 \
			 : "=m"(*(type *)(pages + (offset))) : "r"((type)(value)) : "memory");  \
	did(offset, sizeof(type));                                                              \
} while (0)

static void plain(void)
{
	uint64_t value = 0x0123456789abcdef;

	for (unsigned int offset = 0; offset < 24; offset++) {
		MOV(uint8_t, "b", offset, value);
		MOV(uint16_t, "w", offset + 100, value * 3);
		MOV(uint32_t, "l", offset + 200, value * 5);
		MOV(uint64_t, "q", offset + 300, value * 7);
		value = value << 9 | value >> 55;
	}
	__asm__ volatile("movl $0x55667788, %0" : "=m"(*(uint32_t *)(pages + 400)) : : "memory");
	did(400, 4);
	__asm__ volatile("movnti %1, %0" : "=m"(*(uint64_t *)(pages + 408)) : "r"(value) : "memory");
	did(408, 8);
	__asm__ volatile("addq %1, %0" : "+m"(*(uint64_t *)(pages + 416)) : "r"(value) : "memory");
	did(416, 8);
	__asm__ volatile("bswap %1; movbe %1, %0" : "=m"(*(uint64_t *)(pages + 424)), "+r"(value) : : "memory");
	did(424, 8);
	/* An 80-bit number, in two parts. */
	__asm__ volatile("fldpi; fstpt %0" : "=m"(*(long double *)(pages + 440)) : : "memory");
	did(440, 8);
	did(448, 2);
	__asm__ volatile("fnstcw %0" : "=m"(*(uint16_t *)(pages + 460)) : : "memory");
	did(460, 2);
	__asm__ volatile("stmxcsr %0" : "=m"(*(uint32_t *)(pages + 464)) : : "memory");
	did(464, 4);
	/* A store that does not change the page still counts. */
	__asm__ volatile("orb $0, %0" : "+m"(pages[432]) : : "memory");
	did(432, 1);
}

static void crossing(void)
{
	for (unsigned int before = 1; before < 8; before++) {
		if (before < 2)
			MOV(uint16_t, "w", PAGE - before, 0xa1b2);
		if (before < 4)
			MOV(uint32_t, "l", 2 * PAGE - before, 0xc1d2e3f4);
		MOV(uint64_t, "q", PAGE - before, 0x1020304050607080 * before);
	}
}

__attribute__((target("avx"))) static void vectors(void)
{
	const __m128i one = _mm_set_epi32(0x0f0e0d0c, 0x0b0a0908, 0x07060504, 0x03020100);
	const __m128i mask = _mm_set_epi32((int)0x80008000, 0, 0x00800000, (int)0x80000080);

	__asm__ volatile("movdqa %1, %0" : "=m"(*(__m128i *)(pages + 1024)) : "x"(one) : "memory");
	did(1024, 16);
	__asm__ volatile("movdqu %1, %0" : "=m"(*(__m128i *)(pages + 1041)) : "x"(one) : "memory");
	did(1041, 16);
	__asm__ volatile("movntdq %1, %0" : "=m"(*(__m128i *)(pages + 1072)) : "x"(one) : "memory");
	did(1072, 16);
	__asm__ volatile("movq %1, %0" : "=m"(*(uint64_t *)(pages + 1099)) : "x"(one) : "memory");
	did(1099, 8);
	__asm__ volatile("movd %1, %0" : "=m"(*(uint32_t *)(pages + 1111)) : "x"(one) : "memory");
	did(1111, 4);
	for (unsigned int before = 1; before < 16; before += 3) {
		__asm__ volatile("movdqu %1, %0" : "=m"(*(__m128i *)(pages + PAGE - before)) : "x"(one) : "memory");
		did(PAGE - before, 16);
	}
	/* The bytes whose mask bit is set, one by one. */
	__asm__ volatile("maskmovdqu %1, %0" : : "x"(one), "x"(mask), "D"(pages + 1200) : "memory");
	for (unsigned int byte = 0; byte < 16; byte++) {
		if (((const unsigned char *)&mask)[byte] & 0x80)
			did(1200 + byte, 1);
	}
	if (__builtin_cpu_supports("avx")) {
		const __m256i two = _mm256_set_m128i(one, mask);

		__asm__ volatile("vmovdqu %1, %0" : "=m"(*(__m256i *)(pages + 1300)) : "x"(two) : "memory");
		did(1300, 16);
		did(1316, 16);
		/* The words whose top bit is set, one by one. */
		__asm__ volatile("vmaskmovps %2, %1, %0" : "+m"(*(__m256i *)(pages + 1400)) : "x"(two), "x"(two) : "memory");
		for (unsigned int word = 0; word < 8; word++) {
			if (((const unsigned char *)&two)[4 * word + 3] & 0x80)
				did(1400 + 4 * word, 4);
		}
		__asm__ volatile("vmovdqu %1, %0" : "=m"(*(__m256i *)(pages + PAGE - 20)) : "x"(two) : "memory");
		did(PAGE - 20, 16);
		did(PAGE - 4, 16);
	}
}

#define STOS(letter, bytes, offset, times) do {                                                 \
	void *to = pages + (offset);                                                            \
	unsigned long left = (times);                                                           \
	__asm__ volatile("rep stos" letter : "+D"(to), "+c"(left)                               \
			 : "a"(0x8877665544332211 + (offset)) : "memory");                      \
	for (unsigned int at = 0; at < (times); at++)                                           \
		did((offset) + at * (bytes), bytes);                                            \
} while (0)

#define MOVS(letter, bytes, offset, times) do {                                                 \
	void *to = pages + (offset);                                                            \
	const void *from = source + 3;                                                          \
	unsigned long left = (times);                                                           \
	__asm__ volatile("rep movs" letter : "+D"(to), "+S"(from), "+c"(left) : : "memory");    \
	for (unsigned int at = 0; at < (times); at++)                                           \
		did((offset) + at * (bytes), bytes);                                            \
} while (0)

static void strings(void)
{
	static unsigned char source[512];
	void *to = pages + 2000;
	unsigned long left = 9;

	for (unsigned int at = 0; at < sizeof(source); at++)
		source[at] = at * 7 + 1;
	STOS("b", 1, 1501, 50);
	STOS("w", 2, 1601, 20);
	STOS("l", 4, 1701, 20);
	STOS("q", 8, 1801, 20);
	MOVS("b", 1, 2101, 50);
	MOVS("w", 2, 2201, 20);
	MOVS("l", 4, 2301, 20);
	MOVS("q", 8, 2401, 20);
	/* Across both ends of a page. */
	MOVS("q", 8, PAGE - 29, 9);
	STOS("l", 4, 2 * PAGE - 13, 9);
	/* Downwards. */
	__asm__ volatile("std; rep stosw; cld" : "+D"(to), "+c"(left) : "a"(0x4321) : "memory");
	for (unsigned int at = 0; at < 9; at++)
		did(2000 - 2 * at, 2);
}

#define LOCKED(instruction, type, offset, ...) do {                                             \
	__asm__ volatile("lock " instruction : "+m"(*(type *)(pages + (offset))) : __VA_ARGS__ : "memory", "cc"); \
	did(offset, sizeof(type));                                                              \
} while (0)

static void locked(void)
{
	uint64_t *word = (uint64_t *)(pages + 3000);
	uint64_t value = 5, wanted = *word;
	unsigned __int128 *pair = (unsigned __int128 *)(pages + 3072);
	uint64_t low = (uint64_t)*pair, high = (uint64_t)(*pair >> 64);

	LOCKED("addq %1, %0", uint64_t, 3000, "r"(value));
	LOCKED("subl %1, %0", uint32_t, 3000, "r"((uint32_t)value));
	LOCKED("andw %1, %0", uint16_t, 3000, "r"((uint16_t)0x1771));
	LOCKED("orb %1, %0", uint8_t, 3003, "q"((uint8_t)0x81));
	LOCKED("xorq %1, %0", uint64_t, 3001, "r"(value * 0x0101010101010101));
	LOCKED("incq %0", uint64_t, 3000, "r"(value));
	LOCKED("decl %0", uint32_t, 3000, "r"(value));
	LOCKED("negq %0", uint64_t, 3000, "r"(value));
	LOCKED("notq %0", uint64_t, 3000, "r"(value));
	LOCKED("btsq $9, %0", uint64_t, 3000, "r"(value));
	LOCKED("btrq $4, %0", uint64_t, 3000, "r"(value));
	LOCKED("btcq $33, %0", uint64_t, 3000, "r"(value));
	__asm__ volatile("lock xaddq %1, %0" : "+m"(*word), "+r"(value) : : "memory", "cc");
	did(3000, 8);
	__asm__ volatile("xchgq %1, %0" : "+m"(*word), "+r"(value) : : "memory");
	did(3000, 8);
	wanted = *word;
	__asm__ volatile("lock cmpxchgq %2, %0" : "+m"(*word), "+a"(wanted) : "r"(99UL) : "memory", "cc");
	did(3000, 8);
	/* This one fails, but the processor writes the old value back. */
	wanted = 98;
	__asm__ volatile("lock cmpxchgq %2, %0" : "+m"(*word), "+a"(wanted) : "r"(97UL) : "memory", "cc");
	did(3000, 8);
	__asm__ volatile("lock cmpxchg16b %0" : "+m"(*pair), "+a"(low), "+d"(high)
			 : "b"(0x1234UL), "c"(0x5678UL) : "memory", "cc");
	did(3072, 16);
	/* Across the end of a page. */
	LOCKED("addq %1, %0", uint64_t, 2 * PAGE - 3, "r"(value + 0x0102030405060708));
}

static void stack(void)
{
	unsigned char *top = pages + 3200;

	__asm__ volatile("xchg %%rsp, %0; pushq $0x1234; pushw $0x77; call 1f; 1: add $18, %%rsp; xchg %%rsp, %0"
			 : "+r"(top) : : "memory");
	did(3192, 8);
	did(3190, 2);
	did(3182, 8);
}

/* The kernel chooses the stores by which it copies data in. */
static void kernel(void)
{
	static unsigned char text[3000];
	int pipes[2];

	for (unsigned int at = 0; at < sizeof(text); at++)
		text[at] = at * 13 + 5;
	if (pipe(pipes) || write(pipes[1], text, sizeof(text)) != sizeof(text))
		fail("pipe");
	if (read(pipes[0], pages + PAGE + 2001, sizeof(text)) != sizeof(text))
		fail("read");
}

/* Code in a snooped page, which stores next to itself and over itself. */
static void code(void)
{
	void (*store)(void *to, uint64_t value) = (void (*)(void *, uint64_t))(uintptr_t)(pages + 2 * PAGE + 800);

	/* mov %rsi, (%rdi); ret */
	MOV(uint64_t, "q", 2 * PAGE + 800, 0x90909090c3378948);
	for (unsigned int at = 0; at < 20; at++) {
		store(pages + 2 * PAGE + 808 + 8 * at, 0x0101010101010101 * at);
		did(2 * PAGE + 808 + 8 * at, 8);
		store(pages + 2 * PAGE + 800, 0x90909090c3378948);
		did(2 * PAGE + 800, 8);
		store(pages + 2 * PAGE - 3, 0x1234567812345678 + at);
		did(2 * PAGE - 3, 8);
	}
}

#define ROUNDS 50

/* A process with other pages at the same addresses, which stores to them on request. */
static void neighbour(int orders, int done)
{
	char order;

	if (mmap(pages, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != pages)
		fail("mmap");
	while (read(orders, &order, 1) == 1) {
		for (int page = 0; page < PAGES; page++)
			pages[page * PAGE + 700] = order;
		if (write(done, &order, 1) != 1)
			fail("write");
	}
	exit(0);
}

/* Remaps virtual addresses all the time, to pages that are snooped and to others. */
static void mapping(void)
{
	int orders[2], done[2];
	pid_t child;

	/*
	 * The child must not inherit these pages: otherwise the next store would copy them
	 * elsewhere.
	 */
	if (pipe(orders) || pipe(done) || madvise(pages, PAGES * PAGE, MADV_DONTFORK))
		fail("pipe");
	child = fork();
	if (child < 0)
		fail("fork");
	if (child == 0) {
		close(orders[1]);
		neighbour(orders[0], done[1]);
	}
	for (int round = 0; round < ROUNDS; round++) {
		unsigned char *page = pages + 2 * PAGE, *other;
		char order = round;

		other = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (other == MAP_FAILED)
			fail("mmap");
		*(volatile unsigned char *)(other + 700) = round;
		if (write(orders[1], &order, 1) != 1 || read(done[0], &order, 1) != 1)
			fail("neighbour");
		MOV(uint64_t, "q", 704, round * 3 + 1);
		if (mremap(page, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, other) != other)
			fail("mremap");
		__asm__ volatile("movl %1, %0" : "=m"(*(uint32_t *)(other + 708)) : "r"(round * 5 + 1) : "memory");
		if (mremap(other, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, page) != page)
			fail("mremap");
		did(2 * PAGE + 708, 4);
		MOV(uint16_t, "w", 2 * PAGE + 712, round);
	}
	close(orders[1]);
	close(orders[0]);
	close(done[0]);
	close(done[1]);
	waitpid(child, NULL, 0);
}

#define TIMES 300

/* Each processor stores to its own words, and both increment a shared one. */
static void *count_up(void *argument)
{
	unsigned int processor = *(unsigned int *)argument;
	uint64_t *own = (uint64_t *)(pages + 64 * processor), *both = (uint64_t *)(pages + 1024);
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(processor, &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		fail("sched_setaffinity");
	for (uint64_t at = 1; at <= TIMES; at++) {
		__atomic_store_n(own, at, __ATOMIC_RELAXED);
		__atomic_fetch_add(both, 1, __ATOMIC_SEQ_CST);
		__asm__ volatile("movb %b1, %0" : "=m"(pages[PAGE]) : "q"((uint8_t)processor) : "memory");
		if (at % 10 == 0)
			sched_yield();
	}
	return NULL;
}

static void processors(void)
{
	static unsigned int numbers[2] = { 0, 1 };
	pthread_t threads[2];

	memset(pages, 0, PAGE);
	for (int at = 0; at < 2; at++) {
		if (pthread_create(&threads[at], NULL, count_up, &numbers[at]))
			fail("pthread_create");
	}
	for (int at = 0; at < 2; at++)
		pthread_join(threads[at], NULL);
	MOV(uint64_t, "q", PAGE + 8, 0xe0f0e0f0e0f0e0f0);
}

int main(void)
{
	static const struct {
		const char *name;
		void (*make)(void);
	} kinds[] = {
		{ "plain", plain }, { "crossing", crossing }, { "vectors", vectors }, { "strings", strings },
		{ "locked", locked }, { "stack", stack }, { "code", code }, { "mapping", mapping },
		{ "kernel", kernel }, { "processors", processors },
	};
	char line[32];

	make_pages();
	while (fgets(line, sizeof(line), stdin)) {
		line[strcspn(line, "\n")] = 0;
		count = 0;
		for (unsigned int kind = 0; kind < sizeof(kinds) / sizeof(kinds[0]); kind++) {
			if (!strcmp(line, kinds[kind].name))
				kinds[kind].make();
		}
		print_all();
	}
	return 0;
}
