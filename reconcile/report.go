package reconcile

import (
	"time"
)

// Kind names what was found wrong and no program should mend.
type Kind string

// The kinds of findings.
const (
	// MissingThere: a payment of ours whose charge the PSP does not know.
	MissingThere Kind = "missing_there"
	// Differs: a charge and our records disagree about the user, order, amount, currency or status.
	Differs Kind = "differs"
	// Orphan: a charge at the PSP that is not ours, or that no key of ours made.
	Orphan Kind = "orphan"
	// ChargedAfterRefusal: the client was told that it was not charged, and then it was.
	ChargedAfterRefusal Kind = "charged_after_refusal"
	// Stubborn: a key that cannot be settled for a reason of our own.
	Stubborn Kind = "unsettled"
)

// maxFindings is how many findings a report tells in full; all are counted, and logged.
const maxFindings = 100

// Finding is one thing that a person has to look at. PaymentID and ChargeID are empty where there is none.
type Finding struct {
	Kind      Kind   `json:"kind"`
	UserID    int64  `json:"user_id"`
	PaymentID string `json:"payment_id,omitempty"`
	ChargeID  string `json:"charge_id,omitempty"`
	Detail    string `json:"detail"`
}

// Stuck counts the stuck keys of a pass by what became of them.
type Stuck struct {
	Seen int `json:"seen"`
	// OldestMS is the age, in milliseconds, of the oldest last attempt among them.
	OldestMS  int64 `json:"oldest_ms"`
	Charged   int   `json:"charged"`
	Refused   int   `json:"refused"`
	Abandoned int   `json:"abandoned"`
	Parked    int   `json:"parked"`
	TooYoung  int   `json:"too_young"`
	Unknown   int   `json:"unknown"`
	Other     int   `json:"other"`
}

// Pending counts the pending charges that a pass asked for.
type Pending struct {
	Asked   int `json:"asked"`
	Changed int `json:"changed"`
	Still   int `json:"still_pending"`
	Unknown int `json:"unknown"`
}

// Statement counts what a pass read of the PSP's statement.
type Statement struct {
	Read int `json:"read"`
	// Written: charges that were missing here. Raised: payments that the PSP knew more of.
	Written int `json:"written"`
	Raised  int `json:"raised"`
	// Mark is up to where the statement is done with; zero when it was never read.
	Mark time.Time `json:"mark,omitzero"`
}

// Events counts what a pass did with the inbox, and what is in it afterwards.
type Events struct {
	Applied int `json:"applied"`
	Failed  int `json:"failed"`
	Died    int `json:"died"`
	Waiting int `json:"waiting"`
	Dead    int `json:"dead"`
	// ChargedAfterRefusal counts the applied events that say so, until the money went back.
	ChargedAfterRefusal int `json:"charged_after_refusal"`
}

// Purged counts what a pass deleted, and the keys whose stored body it dropped.
type Purged struct {
	Keys      int `json:"keys"`
	Compacted int `json:"compacted"`
	Events    int `json:"events"`
}

// Report tells what one pass did. In a dry run it tells what a pass would do.
type Report struct {
	ID         string    `json:"id"`
	StartedAt  time.Time `json:"started_at"`
	DurationMS int64     `json:"duration_ms"`
	DryRun     bool      `json:"dry_run"`
	// PSPDown: the PSP could not be reached, and what needs it was left for the next pass.
	PSPDown bool `json:"psp_down"`
	// Stopped: the pass was asked to end before it was through.
	Stopped   bool      `json:"stopped"`
	Stuck     Stuck     `json:"stuck"`
	Pending   Pending   `json:"pending"`
	Statement Statement `json:"statement"`
	Events    Events    `json:"events"`
	Purged    Purged    `json:"purged"`
	// Parked is how many keys wait for a person after the pass.
	Parked int `json:"parked"`
	// Found counts the findings of this pass; Findings holds the first hundred.
	Found    int       `json:"found"`
	Findings []Finding `json:"findings"`
	// NeedsPerson is the sum of all that a person has to look at: parked keys, dead events, charges after a refusal, findings.
	NeedsPerson int `json:"needs_person"`
}

// The exit codes of a pass.
const (
	ExitClean       = 0
	ExitNeedsPerson = 1
	ExitCouldNotRun = 2
)

// ExitCode is what a process that ran this pass ends with: 1 when something needs a person, else 2 when the PSP was down, or the
// pass was stopped, so that it could not do its work, else 0. A pass that returned an error ends with 2.
func (r Report) ExitCode() int {
	switch {
	case r.NeedsPerson > 0:
		return ExitNeedsPerson
	case r.PSPDown || r.Stopped:
		return ExitCouldNotRun
	}
	return ExitClean
}
