package dev.octet.trainer.hook;

import dev.octet.trainer.guard.GuardDecision;

/**
 * A decision of the run's guard.
 *
 * @param demoted products that are not computed as configured from now on
 * @param highPrecision those of them that are not in FP8
 * @param products all that the guard may demote
 */
public record GuardReport(GuardDecision decision, int demoted, int highPrecision, int products) {}
