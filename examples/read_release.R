# Read a table of a release in base R: codes as text, which keeps their zeros, counts as numbers, and names of regions.
#
# Rscript examples/read_release.R out/…/release/us t1/county-2.csv

arguments <- commandArgs(trailingOnly = TRUE)
release <- arguments[1]

read <- function(file) {
  path <- file.path(release, file)
  separator <- if (grepl("|", readLines(path, n = 1), fixed = TRUE)) "|" else ","
  read.csv(path, sep = separator, colClasses = "character", na.strings = "", check.names = FALSE, encoding = "UTF-8")
}

dictionary <- read("dictionary.csv")  # of every column its unit and meaning
counted <- dictionary$COLUMN[!dictionary$UNIT %in% c("code", "text", "yes or no", NA)]
table <- read(arguments[2])
for (column in intersect(names(table), counted)) table[[column]] <- as.numeric(table[[column]])
if (file.exists(file.path(release, "names.csv"))) {
  table <- merge(table, read("names.csv"), all.x = TRUE)  # by the columns that both have
}

print(head(table[order(-table$COUNT), ], 5), row.names = FALSE)
cat(nrow(table), "rows, sum of COUNT", format(sum(table$COUNT), scientific = FALSE), "\n")
