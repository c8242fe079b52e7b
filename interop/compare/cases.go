//go:build interop

package main

// cases lists all scripts in the order in which they run.
func cases() []testCase {
	var all []testCase
	for _, group := range [][]testCase{
		protoCases(), produceCases(), fetchCases(), sessionCases(), metadataCases(),
		topicCases(), deleteRecordsCases(), describeCases(), partitionCases(), reassignCases(), configCases(), alterCases(), featureCases(), logDirCases(), telemetryCases(),
		offsetCases(), producerIDCases(), coordinatorCases(), groupCases(),
	} {
		all = append(all, group...)
	}
	return all
}
