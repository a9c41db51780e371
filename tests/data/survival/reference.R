# Reference results of R's survival and glmnet, stored in reference.csv:
#   Rscript reference.R      (in this folder; R 4.2.2, survival 3.5-3, glmnet 4.1-6)
# Patients: time, event, stratum, weight, features x0.., and z0..: the samples normalised to "normal", as the model of
# suquan sees them. Conversions, with n = sum of the weights, from suquan's alpha = a and l1_ratio = r:
#   coxph:  ridge(z, theta = 2 n a, scale = FALSE), which adds theta / 2 * sum(beta^2) to -loglik
#   glmnet: lambda = a (2 - r), alpha = r / (2 - r), standardize = FALSE, which minimises
#           -loglik / n + lambda ((1 - alpha) / 2 sum(beta^2) + alpha sum(|beta|)); Breslow's rule for ties
suppressMessages({library(survival); library(glmnet)})
glmnet.control(epsnr = 1e-14, mxitnr = 500)  # with strata it iterates in R
d <- read.csv("patients.csv")
z <- as.matrix(d[, grepl("^z", names(d))])
rows <- list()
keep <- function(what, ties, strata, weights, a, r, beta) {
  rows[[length(rows) + 1]] <<- data.frame(
    package = what, ties = ties, strata = strata, weights = weights, alpha = a, l1_ratio = r,
    t(setNames(sprintf("%.12g", as.numeric(beta)), paste0("coef", seq_along(beta) - 1))))
}
# `ridge` takes its columns by name.
for (ties in c("efron", "breslow")) for (strata in 0:1) for (weights in 0:1) for (a in c(0.01, 0.1)) {
  w <- if (weights) d$weight else rep(1, nrow(d))
  theta <- 2 * sum(w) * a
  terms <- sprintf("ridge(%s, theta = %.17g, scale = FALSE)", paste(colnames(z), collapse = ", "), theta)
  if (strata) terms <- paste(terms, "+ strata(stratum)")
  d$w <- w
  fit <- coxph(as.formula(paste("Surv(time, event) ~", terms)), d, weights = w, ties = ties,
               control = coxph.control(eps = 1e-12, iter.max = 100, outer.max = 100))
  keep("survival", ties, strata, weights, a, 0, coef(fit)[seq_len(ncol(z))])
}
for (strata in 0:1) for (weights in 0:1) for (r in c(0.1, 0.5, 0.9)) {
  w <- if (weights) d$weight else rep(1, nrow(d))
  y <- Surv(d$time, d$event)
  if (strata) y <- stratifySurv(y, d$stratum)
  a <- 0.02
  fit <- glmnet(z, y, family = "cox", weights = w, alpha = r / (2 - r), lambda = a * (2 - r) * c(10, 3, 1),
                standardize = FALSE, thresh = 1e-16, maxit = 1e7)
  keep("glmnet", "breslow", strata, weights, a, r, as.numeric(coef(fit)[, 3]))
}
write.csv(do.call(rbind, rows), "reference.csv", row.names = FALSE, quote = FALSE)
