//! Experiments that measure Daiko beside what a user would pick instead.
