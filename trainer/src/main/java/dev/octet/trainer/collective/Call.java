package dev.octet.trainer.collective;

/** What a rank is doing when it waits for others, for messages. */
enum Call {
    ALL_REDUCE(1, "all-reduce"),
    REDUCE_SCATTER(2, "reduce-scatter"),
    ALL_GATHER(3, "all-gather"),
    BROADCAST(4, "broadcast"),
    MESSAGE(5, "send and receive"),
    BARRIER(6, "barrier");

    private final int tag;
    private final String text;

    Call(int tag, String text) {
        this.tag = tag;
        this.text = text;
    }

    /** Marks its messages: one of another call is not taken for it. */
    int tag() {
        return tag;
    }

    String text() {
        return text;
    }
}
