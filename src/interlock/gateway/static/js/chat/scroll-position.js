/** The reader's position in the stream: kept at its end, or not moved where it is above. */

const NEAR_PX = 60;
const ABOVE_PX = 12;

export class ScrollPosition {
  sticks = true;
  #find;
  #height = 0;
  #top = 0;

  /** @param {() => HTMLElement|null} find what scrolls */
  constructor(find) {
    this.#find = find;
  }

  /** Content grew. Never scroll up: the person may be filling in a question longer than the window. */
  keep() {
    const scroller = this.#find();
    if (this.sticks) scroller.scrollTop = Math.max(scroller.scrollTop, aim(scroller));
    this.#height = scroller.scrollHeight;
    this.#top = scroller.scrollTop;
  }

  /**
   * Also called, later, for scrolling that `keep` did itself: content may have grown since, without the reader leaving the end.
   * @returns {boolean} whether that changed something
   */
  scrolled() {
    return !(this.sticks && this.#find().scrollTop >= this.#top) && this.#look();
  }

  /** Something was folded in or out by hand: the reader stays where he is. */
  toggled() {
    return this.#find().scrollHeight !== this.#height && this.#look();
  }

  #look() {
    const scroller = this.#find();
    const sticks = aim(scroller) - scroller.scrollTop < NEAR_PX;
    const isOther = sticks !== this.sticks;
    this.sticks = sticks;
    return isOther;
  }

  toEnd() {
    this.sticks = true;
    const scroller = this.#find();
    scroller.scrollTop = scroller.scrollHeight;
  }

  /** What the reader sees stays where it is, whatever comes above it. @param {() => Promise<void>} act */
  async hold(anchor, act) {
    const before = anchor?.getBoundingClientRect().top;
    await act();
    if (anchor?.isConnected) this.#find().scrollTop += anchor.getBoundingClientRect().top - before;
  }
}

/** Where to be without scrolling: the end, or the head of a question that fills the window. */
function aim(scroller) {
  const end = scroller.scrollHeight - scroller.clientHeight;
  const question = [...scroller.querySelectorAll('.question.open')].at(-1);
  if (!question) return end;
  const top = question.getBoundingClientRect().top - scroller.getBoundingClientRect().top;
  return Math.min(end, scroller.scrollTop + top - ABOVE_PX);
}
