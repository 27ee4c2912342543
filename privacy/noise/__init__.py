"""The noise of a release: exact laws, certified sampling, addressable randomness, margins of error."""

from privacy.noise.laws import Definition, DiscreteGaussian, Law, TwoSidedGeometric, law
from privacy.noise.margins import coverage, margin_of_error, suppression_threshold
from privacy.noise.measure import Measured, measure
from privacy.noise.query_noise import QueryNoise
from privacy.noise.randomness import NOISE_SCHEME_VERSION, Keystream, RunSecret
from privacy.noise.sampler import Sampler

__all__ = [
    "NOISE_SCHEME_VERSION",
    "Definition",
    "DiscreteGaussian",
    "Keystream",
    "Law",
    "Measured",
    "QueryNoise",
    "RunSecret",
    "Sampler",
    "TwoSidedGeometric",
    "coverage",
    "law",
    "margin_of_error",
    "measure",
    "suppression_threshold",
]
