package dev.octet.quant.layout;

/** Text that lets a regular expression look at it only so often. All parts of one text share their count. */
final class CountedText implements CharSequence {
    private final String text;
    private final Count count;

    /** The expression took too long. */
    static final class TooManySteps extends RuntimeException {
        private static final long serialVersionUID = 1L;

        TooManySteps() {
            super(null, null, false, false); // only unwinds the matcher
        }
    }

    private static final class Count {
        private int steps;
    }

    CountedText(String text) {
        this(text, new Count());
    }

    private CountedText(String text, Count count) {
        this.text = text;
        this.count = count;
    }

    @Override
    public int length() {
        return text.length();
    }

    @Override
    public char charAt(int index) {
        if (++count.steps > ModulePattern.MAX_STEPS) {
            throw new TooManySteps();
        }
        return text.charAt(index);
    }

    @Override
    public CharSequence subSequence(int start, int end) {
        return new CountedText(text.substring(start, end), count);
    }

    @Override
    public String toString() {
        return text;
    }
}
