package gatewaysim

import "time"

// timed is something that is due at a time. Among those of one time the lowest sequence comes first.
type timed interface {
	when() (due time.Time, seq uint64)
}

// timeline is a heap with the soonest first, for package container/heap.
type timeline[T timed] []T

func (l timeline[T]) Len() int { return len(l) }
func (l timeline[T]) Less(i, j int) bool {
	at, seq := l[i].when()
	otherAt, otherSeq := l[j].when()
	if at.Equal(otherAt) {
		return seq < otherSeq
	}
	return at.Before(otherAt)
}
func (l timeline[T]) Swap(i, j int) { l[i], l[j] = l[j], l[i] }

// Push and Pop are for package heap alone.
func (l *timeline[T]) Push(x any) { *l = append(*l, x.(T)) }

// Pop removes the last element.
func (l *timeline[T]) Pop() any {
	old := *l
	x := old[len(old)-1]
	*l = old[:len(old)-1]
	return x
}
