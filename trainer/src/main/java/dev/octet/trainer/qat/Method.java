package dev.octet.trainer.qat;

/** How the scales of fake quantisation come about, and what training does to them. */
public enum Method {
    /** Learned step sizes (Esser et al., arXiv:1902.08153); of FP8 with Octet's own rule, in which a float grid takes the place of the integers. */
    LSQ("lsq");

    private final String label;

    Method(String label) {
        this.label = label;
    }

    /** Its name in configurations: {@code lsq}. */
    public String label() {
        return label;
    }
}
