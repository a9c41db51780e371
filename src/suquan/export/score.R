# Scores of samples by the model in this folder, in base R: Rscript score.R TABLE.csv SCORES.csv [ignore]
# TABLE.csv has a row per sample: its name, then features by name. "ignore" skips missing values and features.
given <- commandArgs(TRUE)
here <- dirname(gsub("~+~", " ", sub("^--file=", "", grep("^--file=", commandArgs(), value = TRUE)), fixed = TRUE))
read <- function(path, ...) read.csv(path, check.names = FALSE, encoding = "UTF-8", na.strings = character(), ...)
targets <- read(file.path(here, "targets.csv"))[-1]
weights <- read(file.path(here, "coefficients.csv"))
W <- as.matrix(weights[-1])
json <- paste(readLines(file.path(here, "model.json")), collapse = " ")
field <- function(name) gsub('[]["]', "", sub(sprintf('.*"%s": (\\[[^]]*\\]|"[^"]*"|[a-z]+).*', name), "\\1", json))
ties <- field("ties")

table <- read(given[1], colClasses = "character")
column <- if (field("named") == "true") match(weights$feature, names(table)[-1]) else seq_len(nrow(W))
X <- matrix(NA_real_, nrow(table), nrow(W))
X[, !is.na(column)] <- as.numeric(unlist(table[-1][column[!is.na(column)]]))
if (!"ignore" %in% c(field("missing"), given[-(1:2)]) && anyNA(X))
  stop("missing: ", weights$feature[which(colSums(is.na(X)) > 0)[1]], "; give 'ignore' to skip what is missing")

normalise <- function(x, f) {  # the m values that are there read f, a function on (0, 1), at (place + 1/2) / m
  seen <- which(!is.na(x)); p <- length(f); m <- length(seen)
  place <- rank(x[seen], ties.method = if (ties == "mean_rank") "average" else "first")
  values <- approx(seq_len(p), f, pmin(pmax((place - 0.5) * p / m + 0.5, 1), p))$y
  if (ties == "average") values <- ave(values, rank(x[seen], ties.method = "min"))
  replace(numeric(p), seen, values)  # a missing one counts as 0
}
scores <- matrix(as.numeric(strsplit(field("intercept"), ",")[[1]]), nrow(X), ncol(W) / ncol(targets), byrow = TRUE)
for (l in seq_along(targets)) {
  of_target <- seq(l, ncol(W), by = ncol(targets))
  scores <- scores + t(apply(X, 1, normalise, targets[[l]])) %*% W[, of_target]
}
if (field("loss") == "poisson") scores <- exp(scores)
colnames(scores) <- sub(if (ncol(targets) > 1) "__[0-9]+$" else "$", "", colnames(W)[of_target])
shown <- data.frame(sample = table[[1]], apply(scores, c(1, 2), sprintf, fmt = "%.17g"), check.names = FALSE)
write.csv(shown, given[2], row.names = FALSE, quote = 1)
