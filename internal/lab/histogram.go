package lab

import (
	"fmt"
	"math"
	"strings"
	"time"
)

// barWidth is the longest bar, in characters.
const barWidth = 50

// histogram counts values, which are in order, in ranges that grow by half an octave each, and draws a bar for each range.
// Long tails, which is what latencies have, would be lost in ranges of one width.
func histogram(sorted []time.Duration) Table {
	t := Table{Title: "Histogram", Columns: []string{"up to", "calls", "share", ""}}
	if len(sorted) == 0 {
		return t
	}
	type bin struct {
		to    time.Duration
		count int
	}
	var bins []bin
	to := lowestEdge(sorted[0])
	for i := 0; i < len(sorted); {
		b := bin{to: to}
		for ; i < len(sorted) && sorted[i] <= to; i++ {
			b.count++
		}
		bins = append(bins, b)
		to = nextEdge(to)
	}
	most := 0
	for _, b := range bins {
		most = max(most, b.count)
	}
	for _, b := range bins {
		share := fmt.Sprintf("%.2f %%", 100*float64(b.count)/float64(len(sorted)))
		t.add(ms(b.to), fmt.Sprint(b.count), share, bar(b.count, most))
	}
	return t
}

// lowestEdge is the end of the range that the shortest value is in, on the grid of 1 ms · √2ⁿ.
func lowestEdge(shortest time.Duration) time.Duration {
	steps := math.Ceil(2 * math.Log2(math.Max(1, float64(shortest))/float64(time.Millisecond)))
	return max(1, time.Duration(float64(time.Millisecond)*math.Pow(2, steps/2)))
}

func nextEdge(to time.Duration) time.Duration {
	return max(to+1, time.Duration(float64(to)*math.Sqrt2))
}

// bar is as long as the count's share of the greatest one; what is not nothing is at least a dot.
func bar(count, most int) string {
	n := count * barWidth / most
	if n == 0 && count > 0 {
		return "·"
	}
	return strings.Repeat("█", n)
}
