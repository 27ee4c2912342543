# Read a table of a release in base R: ids and codes as text, which keeps their zeros, a name NA as a name, and counts
# as numbers.
#
# Rscript examples/read_release.R out/…/release/us/tables/t1/county-2.csv

path <- commandArgs(trailingOnly = TRUE)[1]
table <- read.csv(path, colClasses = "character", na.strings = character(0), check.names = FALSE, encoding = "UTF-8")
numbers <- intersect(
  c("count", "margin", "margin_90", "variance", "estimate", "estimate_margin", "standard_error"), names(table)
)
table[numbers] <- lapply(table[numbers], as.numeric)

print(head(table[order(-table$count), ], 5), row.names = FALSE)
cat(nrow(table), "rows, sum of count", format(sum(table$count), scientific = FALSE), "\n")
