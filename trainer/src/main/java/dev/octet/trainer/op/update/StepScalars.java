package dev.octet.trainer.op.update;

/**
 * What the updates of all elements of a tensor share.
 *
 * @param lr learning rate of the tensor
 * @param t the step's number from 1
 * @param factor of the gradient: unscaling and clipping
 * @param leftOut whether the step does not count
 */
record StepScalars(double lr, double t, double factor, boolean leftOut) {}
