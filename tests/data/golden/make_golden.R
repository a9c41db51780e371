# Write what limma and preprocessCore make of the golden inputs.
#
# Samples are rows and features are columns in every file. Both packages want samples in
# columns, so the matrices are transposed on the way in and on the way out.

script <- sub("^--file=", "", grep("^--file=", commandArgs(), value = TRUE))
here <- dirname(normalizePath(script))

path <- function(case, what) file.path(here, paste0(case, "_", what, ".csv"))

load_matrix <- function(case, what) {
  x <- as.matrix(read.csv(path(case, what), header = FALSE, colClasses = "numeric"))
  dimnames(x) <- NULL
  x
}

save_matrix <- function(x, case, what) {
  lines <- apply(x, 1, function(row) paste(sprintf("%.17g", row), collapse = ","))
  writeLines(lines, path(case, what))
}

for (case in c("no_ties", "ties", "counts", "signed")) {
  columns <- t(load_matrix(case, "input"))
  target <- as.vector(load_matrix(case, "target"))
  save_matrix(t(limma::normalizeQuantiles(columns, ties = TRUE)), case, "limma")
  save_matrix(t(preprocessCore::normalize.quantiles(columns)), case, "preprocesscore")
  save_matrix(
    t(preprocessCore::normalize.quantiles.use.target(columns, target)),
    case, "preprocesscore_target"
  )
}
