/* SPDX-License-Identifier: ((GPL-2.0-only WITH Linux-syscall-note) OR MIT) */
/*
 * What a guest and any card of the family agree on.
 *
 * Made from device/abi by cargo run -p hamlyn-tests --bin headers: do not edit.
 */
#ifndef _HAMLYN_FAMILY_H
#define _HAMLYN_FAMILY_H

#include <linux/types.h>

/* Page lists: how a driver names a piece of host memory that need not be contiguous. */

/* The largest area, in bytes: what a page of pointers to pages of addresses of pages reaches. */
#define HAMLYN_MAX_AREA 1073741824ULL

/*
 * A piece of host memory that need not be contiguous.
 *
 * directory is the address of a 4,096-byte page of 512 addresses of list pages, each of 512
 * addresses of 4,096-byte pages; byte i of the area is byte first + i of the pages laid end to end.
 * (The paper's machine had an I/O memory-management unit that did this, section 4.) The pages of
 * the directory and lists belong to the driver.
 */
struct hamlyn_area {
	/* Address of the directory page, 4,096-byte aligned. */
	__u64 directory;
	/* Bytes, 1 to HAMLYN_MAX_AREA less first. */
	__u64 length;
	/* Where in the first page the area starts, 0 to 4,095. */
	__u32 first;
	/* Zero. */
	__u32 reserved;
};

/*
 * The command page: how the driver changes what only the operating system may change.
 *
 * The driver fills the command page (a hamlyn_command, then the operation's own structure at
 * HAMLYN_COMMAND_BODY) and stores to HAMLYN_REG_COMMAND_GO. The card carries the command out whole
 * or not at all, and writes status, value and limit back. When the store has completed no deposit
 * and no gather that an earlier state allowed is under way: what a closed object named may be
 * unpinned.
 */

/* RW, 8 bytes. Where in host memory the command page lies: 4,096-byte aligned. */
#define HAMLYN_REG_COMMAND_PAGE 0x040

/* WO. Any value: run the command in the command page. The write completes when the command has. */
#define HAMLYN_REG_COMMAND_GO 0x048

/* RO. Status of the last command, also when the command page itself could not be reached. */
#define HAMLYN_REG_COMMAND_STATUS 0x04c

/* Size and alignment of the command page, in bytes. */
#define HAMLYN_COMMAND_PAGE_SIZE 4096

/* Offset in the command page of the operation's own structure. */
#define HAMLYN_COMMAND_BODY 64

/*
 * Write the card's counters, a u64 each in the model's order, to the body. All models have this
 * operation.
 */
#define HAMLYN_COMMAND_READ_STATISTICS 9

/* Self-test of DMA. Body: hamlyn_test_dma. All models have this operation. */
#define HAMLYN_COMMAND_TEST_DMA 10

/* Status: done. */
#define HAMLYN_STATUS_OK 0

/* Status: no such operation; value is its code. */
#define HAMLYN_STATUS_BAD_OPCODE 1

/* Status: index is out of range; limit is the size of the table. */
#define HAMLYN_STATUS_BAD_INDEX 2

/* Status: the object is open already. */
#define HAMLYN_STATUS_IN_USE 3

/* Status: the object, or one that the body names, is not open. */
#define HAMLYN_STATUS_NOT_OPEN 4

/* Status: a length is zero or over limit. */
#define HAMLYN_STATUS_BAD_LENGTH 5

/* Status: an address or offset is misaligned or out of range. */
#define HAMLYN_STATUS_BAD_ADDRESS 6

/* Status: a mode, flag, tag, vector or reserved field has a value that means nothing. */
#define HAMLYN_STATUS_BAD_VALUE 7

/* Status: host memory could not be reached; value is the address. */
#define HAMLYN_STATUS_DMA_FAULT 8

/* Status: the command page was not set, or bus mastering is off. */
#define HAMLYN_STATUS_NO_PAGE 9

/* Status: the card's memory has no free piece of value bytes; limit bytes are free in all. */
#define HAMLYN_STATUS_MEMORY_FULL 10

/* Head of the command page. */
struct hamlyn_command {
	/* HAMLYN_COMMAND_* of the family or of the model. */
	__u32 opcode;
	/* Which object. */
	__u32 index;
	/* Written by the card: HAMLYN_STATUS_*. */
	__u32 status;
	/* Zero. */
	__u32 reserved;
	/* Written by the card when it refuses: what was wrong. */
	__u64 value;
	/* Written by the card when it refuses: what the limit is. */
	__u64 limit;
};

/* Body of HAMLYN_COMMAND_TEST_DMA: the card copies length bytes from one place to the other. */
struct hamlyn_test_dma {
	/* Address to read. */
	__u64 from;
	/* Address to write. */
	__u64 to;
	/* Bytes, 1 to 4,096. */
	__u64 length;
};

/*
 * Taking part in the fabric, and the handshake timer that ends it for a host that has died (section
 * 2.8).
 */

/* RW. Control bits: HAMLYN_CONTROL_ENABLE. Writing HAMLYN_CONTROL_RESET resets the card. */
#define HAMLYN_REG_CONTROL 0x020

/* RO. The handshake timer's period, in milliseconds (section 2.8); 0: the card has none. */
#define HAMLYN_REG_HANDSHAKE_TIMEOUT 0x050

/*
 * WO. Any value: restarts the handshake timer. If the host fails to for a whole period,
 * HAMLYN_CONTROL_ENABLE is cleared: the card discards what arrives until the host sets it again.
 */
#define HAMLYN_REG_HANDSHAKE 0x054

/*
 * The card takes part in the fabric. Until it is set, and once the handshake timer has run out, the
 * card discards every arriving packet (section 2.8).
 */
#define HAMLYN_CONTROL_ENABLE 1

/* Reset the card: every object is closed and the enable bit cleared. */
#define HAMLYN_CONTROL_RESET 2

/*
 * Express memory: what two hosts share, and nobody else. A PCI function of its own shows it, beside
 * a card of any model.
 *
 * The function has one BAR, index 0, 64 bits wide and prefetchable. Its first page has the
 * registers below, which are trapped; elsewhere lie *parts*: one for each other host, mapped
 * memory, the same bytes as that host's part for this one. What lies between parts is not there:
 * reads give zero, stores do nothing. What a part is used for is the operating systems' to arrange
 * (express).
 *
 * A card may have several such functions, each with parts for other hosts: then each part is a file
 * of its own.
 */

/* PCI device id of a function with express memory, of a card of any model. */
#define HAMLYN_PCI_EXPRESS 0x4845

/* PCI class code of such a function: memory controller, other. */
#define HAMLYN_PCI_EXPRESS_CLASS 0x058000

/* Value of HAMLYN_EXPRESS_REG_MAGIC: the letters HEXP. */
#define HAMLYN_EXPRESS_MAGIC 0x50584548

/*
 * Value of HAMLYN_EXPRESS_REG_VERSION: major in the upper half (incompatible changes), minor in the
 * lower (additions).
 */
#define HAMLYN_EXPRESS_VERSION 0x00010000

/* RO, 4 bytes. HAMLYN_EXPRESS_MAGIC. */
#define HAMLYN_EXPRESS_REG_MAGIC 0x000

/* RO, 4 bytes. HAMLYN_EXPRESS_VERSION. */
#define HAMLYN_EXPRESS_REG_VERSION 0x004

/*
 * RO, 4 bytes. The host id that the parts are this side's of. It never changes: if the card comes
 * to another port of its switch, the memory is of no use.
 */
#define HAMLYN_EXPRESS_REG_HOST 0x008

/* RO, 4 bytes. Host ids that there may be parts for are below it, at most HAMLYN_EXPRESS_HOSTS. */
#define HAMLYN_EXPRESS_REG_HOSTS 0x00c

/*
 * RO, 8 bytes. Bytes of each part: a power of two from HAMLYN_EXPRESS_LEAST_PART to
 * HAMLYN_EXPRESS_MOST_PART.
 */
#define HAMLYN_EXPRESS_REG_PART 0x010

/*
 * RO, 8 bytes. Which memory it is: a number from a random source, never 0. Two hosts share a part
 * if theirs are the same.
 */
#define HAMLYN_EXPRESS_REG_MEMORY 0x018

/*
 * RO, 4 bytes. The complement of what was last written to the card's HAMLYN_REG_SCRATCH: so a
 * driver can tell whose it is.
 */
#define HAMLYN_EXPRESS_REG_SCRATCH 0x020

/*
 * RO, 8 bytes for each host id: where in the BAR the part for that host begins, a multiple of
 * 4,096, or 0: there is none here.
 */
#define HAMLYN_EXPRESS_REG_PARTS 0x100

/* Bytes of the registers, at the beginning of the BAR. */
#define HAMLYN_EXPRESS_REGISTERS_SIZE 4096

/* The most hosts that express memory may be for. */
#define HAMLYN_EXPRESS_HOSTS 64

/* The smallest part, in bytes. */
#define HAMLYN_EXPRESS_LEAST_PART 0x10000

/* The largest part, in bytes. */
#define HAMLYN_EXPRESS_MOST_PART 0x10000000

/*
 * What a card of the family looks like on the PCI bus, and what it says of itself at the start of
 * BAR 0.
 *
 * Accesses to BAR 0 are 4 or 8 bytes wide, aligned.
 */

/*
 * PCI vendor id of the family. Not assigned by the PCI-SIG: it is the one QEMU uses for devices
 * that exist nowhere else.
 */
#define HAMLYN_PCI_VENDOR 0x1234

/* PCI class code: network controller, other. */
#define HAMLYN_PCI_CLASS 0x028000

/*
 * PCI class code of a further function that takes posted stores: generic system peripheral, other.
 */
#define HAMLYN_PCI_DOORBELL_CLASS 0x088000

/* Size of BAR 0, in bytes. */
#define HAMLYN_REGISTERS_SIZE 4096

/* Value of HAMLYN_REG_MAGIC: the letters HMLN. */
#define HAMLYN_MAGIC 0x4e4c4d48

/* RO. HAMLYN_MAGIC. */
#define HAMLYN_REG_MAGIC 0x000

/* RO. Which card this is. */
#define HAMLYN_REG_MODEL 0x004

/*
 * RO. The version of the model's contract that the card implements: major in the upper half
 * (incompatible changes), minor in the lower (additions).
 */
#define HAMLYN_REG_ABI_VERSION 0x008

/*
 * RW. Self-test of register access: reads as the complement of what was written. So does every
 * doorbell, of either function: a driver can tell whether a second function is this card's.
 */
#define HAMLYN_REG_SCRATCH 0x014

/*
 * RO. What the card is beyond its contract: HAMLYN_FEATURE_COHERENT. A card without this register
 * reads as 0.
 */
#define HAMLYN_REG_FEATURES 0x05c

/*
 * Windows that a BAR maps are memory of the machine's host, which card and guest reach through one
 * coherent cache.
 *
 * The driver maps them cached (write-back) then, and uncached otherwise. A card of hardware does
 * not set it: it sees a cached store when the line is evicted, and the guest never sees its stores
 * in a line that it has cached. Each side orders its accesses as between processors: a store that
 * publishes is a release, a load that looks for one is an acquire, and a full barrier stands
 * between a store and a load that must not pass it.
 */
#define HAMLYN_FEATURE_COHERENT 1

/* A card's interrupts: MSI-X vectors, of which the first is the link's. */

/* WO. Self-test of interrupts: raises the MSI-X vector whose number is written. */
#define HAMLYN_REG_INTERRUPT_TEST 0x018

/*
 * RO. How many MSI-X vectors there are. Vector 0 reports link changes; the others are the model's.
 */
#define HAMLYN_REG_VECTORS 0x038

/* MSI-X vector that reports a change of the link. */
#define HAMLYN_VECTOR_LINK 0

/* The most MSI-X vectors a card may have. */
#define HAMLYN_MAX_VECTORS 16

/* Where a card is in the fabric, and whether it is there. */

/* RO. The card's host id: its port on the switch. HAMLYN_NO_HOST while the link is down. */
#define HAMLYN_REG_HOST_ID 0x00c

/* RO. 1 while the link to the switch is up. */
#define HAMLYN_REG_LINK 0x010

/*
 * RO. How often the link has changed since power-on, modulo 2^32: by one when it comes up, goes
 * down, or is another. A reset of the card leaves it as it is. So who looks seldom learns that a
 * link which is up has been down since.
 */
#define HAMLYN_REG_LINK_CHANGES 0x01c

/*
 * RO. How many ports the switch has: host ids are below it. 0 while the link is down, or if the
 * switch does not say.
 */
#define HAMLYN_REG_PORTS 0x058

/* No host: the link is down. */
#define HAMLYN_NO_HOST 0xffffffff

/*
 * The words by which driver and card tell each other who sleeps and which interrupts are pending.
 *
 * They lie in a window that the driver maps; where, each card says. Each is 4 bytes, in a cache
 * line of its own.
 */

/* Distance between two vectors' pending words, in bytes. */
#define HAMLYN_PENDING_STRIDE 64

/* Distance between two objects' armed words, in bytes. */
#define HAMLYN_ARMED_STRIDE 64

/* armed: nobody sleeps on the object; the card does not interrupt. */
#define HAMLYN_ARMED_NO 0

/* armed, stored by the driver: the owner sleeps; what it waits for interrupts. */
#define HAMLYN_ARMED_YES 1

/* armed, stored by the card: what the sleeper waits for has come since. */
#define HAMLYN_ARMED_FIRED 2

#endif /* _HAMLYN_FAMILY_H */
