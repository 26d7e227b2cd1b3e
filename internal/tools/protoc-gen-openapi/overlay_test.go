package main

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestMergeFollowsTheRulesOfAMergePatch(t *testing.T) {
	t.Parallel()
	target := object{
		"kept":     "as it was",
		"replaced": "old",
		"removed":  object{"with": "all below"},
		"merged":   object{"kept": 1, "removed": 2},
		"list":     []any{1, 2, 3},
	}
	patch := object{
		"replaced": "new",
		"removed":  nil,
		"merged":   object{"removed": nil, "added": 3},
		"list":     []any{4},
		"added":    object{"no": nil, "yes": true},
	}
	want := object{
		"kept":     "as it was",
		"replaced": "new",
		"merged":   object{"kept": 1, "added": 3},
		"list":     []any{4},
		"added":    object{"yes": true},
	}
	if diff := cmp.Diff(want, merge(target, patch)); diff != "" {
		t.Errorf("merged (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(object{"kept": 1, "removed": 2}, target["merged"]); diff != "" {
		t.Errorf("the target itself has changed (-want +got):\n%s", diff)
	}
}
