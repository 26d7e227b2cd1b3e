// Package demo shows the service keep its promise: it plays purchases through every failure that the design speaks of, on real
// processes and a real MySQL, and holds what came of each against what must come of it. scenarios.go is the list of stories.
package demo
