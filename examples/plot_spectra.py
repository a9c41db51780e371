"""
Spectra from detectors that are not linear
==========================================

A spectrum is a sample, and wavelengths are its features. A detector multiplies by an unknown gain
and saturates in its own way. Both are increasing maps of the values, so both drop out of the order.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import LeaveOneGroupOut, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from suquan import QuantileNormalizer

# %%
# Six bands on a slope. The class changes the height of two of them. Three detectors saturate
# hardly, more, and much; the gain is another one for every spectrum.

rng = np.random.default_rng(0)
n, wavelength = 300, np.linspace(400, 700, 150)
y, detector = rng.integers(0, 2, size=n), np.arange(n) % 3
heights = rng.normal(1.0, 0.12, size=(n, 6)) + 0.12 * np.outer(y - 0.5, [0, 1, 0, 0, -1, 0])
bands = np.exp(-(((wavelength - np.linspace(430, 670, 6)[:, None]) / 14) ** 2))
light = 0.2 + heights @ bands + (wavelength - 400) / 400 + rng.normal(0, 0.05, size=(n, 150))
gain, bend = rng.lognormal(0, 0.3, size=(n, 1)), np.array([0.05, 1.5, 4.0])[detector, None]
X = gain * (1 - np.exp(-bend * light)) / bend  # as measured

# %%
# The usual remedy, the standard normal variate, subtracts a spectrum's mean and divides by its
# standard deviation. It takes out the gain, but not the saturation. Quantile normalisation takes
# out both. The accuracy is that of a model of two detectors on the third, which it has not seen.


def standard_normal_variate(X):
    """Each spectrum with mean 0 and standard deviation 1."""
    return (X - X.mean(axis=1, keepdims=True)) / X.std(axis=1, keepdims=True)


ways = {
    "as measured": FunctionTransformer(),
    "standard normal variate": FunctionTransformer(standard_normal_variate),
    "quantile normalised": QuantileNormalizer("median"),
}
figure, axes = plt.subplots(1, 3, figsize=(10, 3.6), layout="constrained")
for axis, (name, way) in zip(axes, ways.items(), strict=True):
    model = make_pipeline(way, StandardScaler(), LogisticRegression(C=0.01, max_iter=1000))
    accuracy = cross_val_score(model, X, y, groups=detector, cv=LeaveOneGroupOut()).mean()
    print(f"{name:24} accuracy {accuracy:.2f}")
    for k, color in enumerate(("#2a6f97", "#6b7785", "#c8553d")):
        mean = way.fit_transform(X)[detector == k].mean(axis=0)
        axis.plot(wavelength, mean, color=color, lw=1.8)
        if k != 1 and axis is not axes[2]:
            axis.text(702, mean[-1], ("linear", "", "saturates")[k], color=color, va="center")
    axis.set(title=f"{name}\naccuracy {accuracy:.2f}", xlabel="wavelength, nm", yticks=[])
    axis.spines[["top", "right", "left"]].set_visible(False)
axes[0].set_ylabel("mean spectrum of each detector")
plt.show()
