package torture

import (
	"fmt"
	"time"
)

// checkAudit holds every write to every key against promise 5: who lost the lease writes nothing.
func (b *books) checkAudit(v *verdicts) {
	leases := map[slot]*lease{}
	for _, r := range b.audit {
		l := leases[r.slot]
		if l == nil {
			l = &lease{}
			leases[r.slot] = l
		}
		if wrong := l.follow(r); wrong != "" {
			v.add(5, r.slot, "%s wrote %s over %s: %s", r.writer, r.now, r.old, wrong)
		}
	}
}

// lease follows one key through its writes: who took it last, and what that one may still do.
type lease struct {
	claimed bool
	owner   string // the process that took it
	// released: its owner has given it up, so that it may only be taken over.
	released bool
	finisher uint64 // the connection of its finish, which may restate the answer in the same transaction
}

// follow takes one write and says what is wrong with it, if anything.
func (l *lease) follow(r auditRow) (wrong string) {
	switch {
	case r.op == "DELETE":
		return "nothing may delete a key so soon"
	case r.op == "INSERT":
		if l.claimed {
			return "the key was claimed before"
		}
		*l = lease{claimed: true, owner: r.writer}
		return ""
	case r.writer == "torture":
		return "" // the nemesis has ended its lease
	case r.old.lease != r.now.lease || r.old.holder != r.now.holder:
		return l.takeOver(r)
	case r.old == r.now:
		return "" // a column that the lease does not guard
	case r.old.status == "done":
		return l.afterDone(r)
	}
	return l.byHolder(r)
}

func (l *lease) takeOver(r auditRow) string {
	defer func() { *l = lease{claimed: true, owner: r.writer} }()
	switch {
	case r.old.status != "processing" || r.now.status != "processing":
		return "only a key that is processing can be taken over"
	case r.now.lease != r.old.lease+1 || r.now.holder == r.old.holder:
		return "a take-over raises the lease by one and has a holder of its own"
	case r.old.until.After(r.at.Add(time.Millisecond)):
		return "the lease was not over"
	}
	return ""
}

// byHolder is a write that leaves lease and holder as they are: it must be the holder's, and the holder must not have released.
func (l *lease) byHolder(r auditRow) string {
	switch {
	case r.writer != l.owner:
		return fmt.Sprintf("the lease is %s's", l.owner)
	case r.old.status == "processing" && r.now.status == "processing":
		l.released = true
		return ""
	case l.released:
		return "its holder had released it"
	case r.old.status == "processing" && r.now.status == "done":
		l.finisher = r.conn
		return ""
	case r.old.status == "processing" && r.now.status == "parked":
		return ""
	}
	return fmt.Sprintf("%s does not become %s", r.old.status, r.now.status)
}

// afterDone is a write to a key that is done: nothing of its answer may change but in the transaction of its finish; its body may
// be dropped.
func (l *lease) afterDone(r auditRow) string {
	switch {
	case r.now.status != "done" || !r.now.done.Equal(r.old.done):
		return "it was done"
	case r.now.code == r.old.code && r.now.body == 0:
		return ""
	case r.writer == l.owner && r.conn == l.finisher:
		return ""
	}
	return "the stored answer is not to change"
}
