// Package reconcile ends what requests left open. A pass takes, in this order: the stuck keys (whose request never came back), the
// pending charges (whose webhook never came), the PSP's statement (against our payments), the inbox (events that could not be
// applied), and the purge of what is past its retention.
//
// It asks the PSP and records; it never charges, and it never moves money. What it cannot decide it leaves for the next
// pass, and what no program should decide it reports for a person. Several processes may run it at once: whatever a pass
// writes is a compare-and-set or only rises.
package reconcile
