package dev.octet.trainer.qat;

/** How the scales of fake quantisation come about, and what training does to them. */
public enum Method {
    /** Learned step sizes (Esser et al., arXiv:1902.08153); of floats with Octet's own rule, in which a float grid takes the place of the integers. */
    LSQ("lsq"),
    /** LSQ+ (Bhalgat et al., arXiv:2004.09576): inputs have a learned offset, too, and scales of weights start at three standard deviations. */
    LSQ_PLUS("lsq+"),
    /** PACT (Choi et al., arXiv:1805.06085): the largest value of inputs that are never negative is learned. */
    PACT("pact"),
    /** DoReFa (Zhou et al., arXiv:1606.06160): weights squeezed by tanh to -1 .. 1, inputs clipped to 0 .. 1. Nothing is learned. */
    DOREFA("dorefa"),
    /** ModelOpt's fake quantisation with a fixed amax: gradients pass where |x| is at most amax. */
    FIXED("fixed"),
    /** Scales from the values of each step: amaxes of tokens, channels, groups or MX blocks; on request with zero points of integers. */
    DYNAMIC("dynamic"),
    /** torchao's range learning: scales and zero points. */
    RANGE("range"),
    /** ModelOpt's LSQ: amaxes are learned, those that codes are read with and on request those that they are made with. */
    MODELOPT_LSQ("modelopt-lsq");

    private final String label;

    Method(String label) {
        this.label = label;
    }

    /** Its name in configurations: {@code lsq}. */
    public String label() {
        return label;
    }
}
