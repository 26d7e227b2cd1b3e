package server

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc/metadata"
)

// longestWait stands for every wait that is longer than any deadline.
const longestWait = 24 * time.Hour

// preferredWait returns how long the caller wants to wait for another request that works on its key: the preference "wait" of RFC
// 7240 §4.3, a number of seconds. It may stand among other preferences, in one value or several; the first one counts. A wait
// that is malformed or 0 is ignored: a preference is never a reason to refuse (RFC 7240 §2).
func preferredWait(values []string) time.Duration {
	for _, value := range values {
		for _, preference := range splitUnquoted(value, ',') {
			preference = splitUnquoted(preference, ';')[0] // wait has no parameters
			name, word, _ := strings.Cut(preference, "=")
			if strings.EqualFold(trimSpace(name), "wait") {
				return deltaSeconds(unquote(trimSpace(word)))
			}
		}
	}
	return 0
}

// splitUnquoted splits s at every sep that is not within a quoted string.
func splitUnquoted(s string, sep byte) []string {
	var parts []string
	start, quoted := 0, false
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '"':
			quoted = !quoted
		case quoted && c == '\\':
			i++
		case !quoted && c == sep:
			parts = append(parts, s[start:i])
			start = i + 1
		}
	}
	return append(parts, s[start:])
}

// unquote takes the quotes off: "10" and 10 are the same word. An escape in it is left, since no digit needs one.
func unquote(word string) string {
	if n := len(word); n >= 2 && word[0] == '"' && word[n-1] == '"' {
		return word[1 : n-1]
	}
	return word
}

func trimSpace(s string) string { return strings.Trim(s, " \t") }

// deltaSeconds reads digits and nothing else; 0 when there is anything else.
func deltaSeconds(s string) time.Duration {
	n, err := strconv.ParseUint(s, 10, 64) // which takes no sign
	switch {
	case errors.Is(err, strconv.ErrRange):
		return longestWait
	case err != nil:
		return 0
	}
	return time.Duration(min(n, uint64(longestWait/time.Second))) * time.Second
}

// wait returns how long the request may wait for its key's holder, and tells the client that it would: what was asked for, or
// what is left of the deadline if that is less, in whole seconds rounded up.
func (s *service) wait(ctx context.Context) time.Duration {
	wait := preferredWait(preferences(ctx))
	if deadline, ok := ctx.Deadline(); ok {
		wait = min(wait, time.Until(deadline))
	}
	if wait <= 0 {
		return 0
	}
	setHeader(ctx, s.log, mdPreferenceApplied, "wait="+strconv.FormatInt(ceil(wait, time.Second), 10))
	return wait
}

// preferences returns the values of the request's Prefer.
func preferences(ctx context.Context) []string {
	if c := callOf(ctx); c.face == faceREST {
		return c.preferences
	}
	return metadata.ValueFromIncomingContext(ctx, "prefer")
}
