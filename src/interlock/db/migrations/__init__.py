"""The steps a store took to its present schema. A step that has been released is never edited."""
