# Scores of samples by the model in this folder, in base R: Rscript score.R TABLE.csv SCORES.csv [ignore]
# TABLE.csv has a row per sample: its name, then features by name. With "ignore" a missing value counts as its mean
# over the training samples; features with at least half of the weight must be there.
given <- commandArgs(TRUE)
here <- dirname(gsub("~+~", " ", sub("^--file=", "", grep("^--file=", commandArgs(), value = TRUE)), fixed = TRUE))
refuse <- function(...) { message(...); quit(status = 1) }
read <- function(path, ...) {
  if (!file.exists(path)) refuse(path, ": no such file")
  cells <- count.fields(path, ",", quote = '"', comment.char = "")
  cells <- cells[!is.na(cells)]  # NA inside of a quoted cell of several lines
  if (length(cells) < 2) refuse(path, ": there is no sample")
  if (any(cells != cells[1])) refuse(path, ": a row has ", cells[cells != cells[1]][1], " cells, the header has ", cells[1])
  read.csv(path, check.names = FALSE, encoding = "UTF-8", na.strings = character(), ...)
}
targets <- read(file.path(here, "targets.csv"))[-1]
weights <- read(file.path(here, "coefficients.csv"))
parts <- as.matrix(read(file.path(here, "missing.csv"))[-1])  # what a missing feature adds to each score
W <- as.matrix(weights[-1])
json <- paste(readLines(file.path(here, "model.json")), collapse = " ")
field <- function(name) gsub('[]["]', "", sub(sprintf('.*"%s": (\\[[^]]*\\]|"[^"]*"|[a-z]+).*', name), "\\1", json))
ties <- field("ties")

table <- read(given[1], colClasses = "character")
for (names in list(names(table), table[[1]]))
  if (anyDuplicated(names)) refuse(given[1], ": ", names[anyDuplicated(names)], " occurs more than once")
named <- field("named") == "true"
if (!named && ncol(table) - 1 != nrow(W)) refuse(given[1], ": there are ", ncol(table) - 1, " features, the model has ", nrow(W))
column <- if (named) match(weights$feature, names(table)[-1]) else seq_len(nrow(W))
there <- !is.na(column)
if (!any(there)) refuse(given[1], ": none of the model's ", nrow(W), " features is there")
cells <- unlist(table[-1][column[there]])
numbers <- suppressWarnings(as.numeric(replace(cells, cells %in% c("", "NA", "NaN", "nan", "null", "NULL"), NA)))
looks <- grepl("^[ \t]*[+-]?([0-9]+[.]?[0-9]*|[.][0-9]+)([eE][+-]?[0-9]+)?[ \t]*$", cells) & is.finite(numbers)
wrong <- which(!looks & !cells %in% c("", "NA", "NaN", "nan", "null", "NULL"))[1]
if (!is.na(wrong)) {
  feature <- weights$feature[there][(wrong - 1) %/% nrow(table) + 1]
  refuse("sample ", table[[1]][(wrong - 1) %% nrow(table) + 1], ", feature ", feature, ": ", cells[wrong], " is not a finite number")
}
X <- matrix(NA_real_, nrow(table), nrow(W))
X[, there] <- numbers
if (!"ignore" %in% c(field("missing"), given[-(1:2)]) && anyNA(X))
  refuse("missing: ", weights$feature[which(colSums(is.na(X)) > 0)[1]], "; give 'ignore' to skip what is missing")
lost <- sum(abs(W[!there, ])) / max(sum(abs(W)), 1e-300)
if (lost > 0.5) refuse(given[1], sprintf(": missing features have %.1f%% of the weight, at most 50.0%% may be", 100 * lost))

normalise <- function(x, f) {  # the m values that are there read f, a function on (0, 1), at (place + 1/2) / m
  seen <- which(!is.na(x)); p <- length(f); m <- length(seen)
  place <- rank(x[seen], ties.method = if (ties == "mean_rank") "average" else "first")
  values <- approx(seq_len(p), f, pmin(pmax((place - 0.5) * p / m + 0.5, 1), p))$y
  if (ties == "average") values <- ave(values, rank(x[seen], ties.method = "min"))
  replace(numeric(p), seen, values)  # a missing one is counted by its part
}
b <- as.numeric(strsplit(field("intercept"), ",")[[1]])
scores <- matrix(b, nrow(X), ncol(W) / ncol(targets), byrow = TRUE) + is.na(X) %*% parts
for (l in seq_along(targets)) {
  of_target <- seq(l, ncol(W), by = ncol(targets))
  scores <- scores + t(apply(X, 1, normalise, targets[[l]])) %*% W[, of_target]
}
if (field("loss") == "poisson") scores <- exp(scores)
colnames(scores) <- sub(if (ncol(targets) > 1) "__[0-9]+$" else "$", "", colnames(W)[of_target])
cells <- apply(scores, c(1, 2), sprintf, fmt = "%.17g")
cells[apply(X, 1, function(x) length(unique(x[!is.na(x)])) < 2), ] <- ""  # no order to read
shown <- data.frame(sample = table[[1]], cells, check.names = FALSE)
write.csv(shown, given[2], row.names = FALSE, quote = 1)
