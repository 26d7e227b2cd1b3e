package membership

import "time"

// state is what a node thinks of another one.
type state int

const (
	alive state = iota
	suspect
	dead
)

// member is what a node knows of another one.
type member struct {
	state state
	// incarnation is the latest that is known. A node alone raises its own, to refute a suspicion.
	incarnation int
	// confirmAt is when a suspect is called dead.
	confirmAt time.Duration
}

// news is what nodes tell each other of a node. The papers call it alive, suspect and confirm.
type news struct {
	About       int   `json:"about"`
	State       state `json:"state"`
	Incarnation int   `json:"incarnation"`
}

// overrides says whether news replaces what is known: section 4.2 of the SWIM paper. Death is final: who was called dead joins
// anew, or never. Else the later incarnation counts; and of one and the same, suspicion does, since only its subject can tell
// better, by a later one.
func (u news) overrides(m member) bool {
	switch {
	case m.state == dead:
		return false
	case u.State == dead:
		return true
	case u.State == suspect && m.state == alive:
		return u.Incarnation >= m.incarnation
	}
	return u.Incarnation > m.incarnation
}
