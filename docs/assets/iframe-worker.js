// Search on a site that is read from the disk. The theme searches in a Worker, and browsers start no worker from a file.
// So there a Worker is a hidden frame: its script runs in a window of its own, and messages go to and fro in the same way.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super()
      const frame = document.createElement("iframe")
      frame.hidden = true
      document.body.append(frame)
      this.inside = frame.contentWindow
      // What the script sends comes out here, and loading further scripts may be awaited.
      this.inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }))
      this.inside.importScripts = async (...urls) => {
        for (const each of urls) await this.load(each)
      }
      this.ready = this.load(url)
    }

    postMessage(data) {
      this.ready.then(() => this.inside.dispatchEvent(new MessageEvent("message", { data })))
    }

    terminate() {
      this.inside.frameElement.remove()
    }

    load(url) {
      return new Promise((loaded, failed) => {
        const script = this.inside.document.createElement("script")
        script.src = new URL(url, location.href)
        script.onload = loaded
        script.onerror = () => failed(new Error(`cannot load ${url}`))
        this.inside.document.body.append(script)
      })
    }
  }
}
