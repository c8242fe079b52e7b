//go:build interop

package main

import "strings"

// diff shows the lines that two transcripts do not share, each group under
// the question it belongs to.
func diff(a, b string) string {
	x, y := strings.Split(a, "\n"), strings.Split(b, "\n")
	common := lcs(x, y)
	var out strings.Builder
	question, printed := "", ""
	emit := func(mark, line string) {
		if question != printed {
			out.WriteString("  " + question + "\n")
			printed = question
		}
		out.WriteString("  " + mark + " " + line + "\n")
	}
	i, j := 0, 0
	for i < len(x) || j < len(y) {
		switch {
		case i < len(x) && j < len(y) && x[i] == y[j]:
			if strings.HasPrefix(x[i], "> ") {
				question = x[i]
			}
			i, j = i+1, j+1
		case j >= len(y) || i < len(x) && common[i+1][j] >= common[i][j+1]:
			emit("a", x[i])
			i++
		default:
			emit("b", y[j])
			j++
		}
	}
	return out.String()
}

// lcs[i][j] is the length of the longest common subsequence of x[i:], y[j:].
func lcs(x, y []string) [][]int {
	t := make([][]int, len(x)+1)
	for i := range t {
		t[i] = make([]int, len(y)+1)
	}
	for i := len(x) - 1; i >= 0; i-- {
		for j := len(y) - 1; j >= 0; j-- {
			if x[i] == y[j] {
				t[i][j] = t[i+1][j+1] + 1
			} else {
				t[i][j] = max(t[i+1][j], t[i][j+1])
			}
		}
	}
	return t
}
