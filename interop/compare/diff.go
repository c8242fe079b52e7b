//go:build interop

package main

import "strings"

// line is one that only one of two transcripts has.
type line struct {
	side     string // a or b
	question string // that it belongs to: the last common one before it
	text     string
}

// diff lists the lines that two transcripts do not share.
func diff(a, b string) []line {
	x, y := strings.Split(a, "\n"), strings.Split(b, "\n")
	common := lcs(x, y)
	var out []line
	question := ""
	i, j := 0, 0
	for i < len(x) || j < len(y) {
		switch {
		case i < len(x) && j < len(y) && x[i] == y[j]:
			if strings.HasPrefix(x[i], "> ") {
				question = x[i]
			}
			i, j = i+1, j+1
		case j >= len(y) || i < len(x) && common[i+1][j] >= common[i][j+1]:
			out = append(out, line{"a", question, x[i]})
			i++
		default:
			out = append(out, line{"b", question, y[j]})
			j++
		}
	}
	return out
}

// show prints lines, each group under its question.
func show(lines []line) string {
	var out strings.Builder
	printed := ""
	for _, l := range lines {
		if l.question != printed {
			out.WriteString("  " + l.question + "\n")
			printed = l.question
		}
		out.WriteString("  " + l.side + " " + l.text + "\n")
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
